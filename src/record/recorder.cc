// The life of a recording: load, run, react, end.
//
// The recorded program *is* this process (no supervisor): its parent, process group, terminal and exit status
// are what they would be without us, and the last thing recording does is to end as the program ended.
#include "record/recorder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "engine/host_ops.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/succession.h"

extern char** environ;

namespace backstep::recorder {

using namespace guest;
using recording::EndKind;
using recording::EventKind;

namespace {

using layout::page_up;

constexpr uint64_t kStackAtStart = 128 << 10;  // what the kernel adds to the arguments
constexpr uint64_t kDeepInterval = 64;         // events between two memory checksums of --check=deep

// The first process of a pid namespace dies of faults only, not of signals that it sends itself: so this
// makes one for real.
void make_fault(int signo) {
  switch (signo) {
    case SIGSEGV:
      asm volatile("hlt");
      break;
    case SIGILL:
      asm volatile("ud2");
      break;
    case SIGTRAP:
      asm volatile("int3");
      break;
    case SIGFPE:
      asm volatile("xorl %%eax, %%eax\n cltd\n idivl %%eax" ::: "eax", "edx", "cc");
      break;
    case SIGBUS: {  // an access that is not aligned, with alignment checks on
      alignas(16) static char bytes[16];
      asm volatile("pushfq\n orl $0x40000, (%%rsp)\n popfq\n movl 1(%0), %%eax" ::"r"(bytes)
                   : "eax", "cc", "memory");
      break;
    }
    case SIGSYS: {
      sock_filter trap = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
      sock_fprog program{1, &trap};
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
      getppid();
      break;
    }
    case SIGKILL:
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
      getppid();
      break;
    default:
      break;
  }
}

std::string human_size(uint64_t bytes) {
  if (bytes < 10 << 10) return fmt::format("{} bytes", bytes);
  if (bytes < 10 << 20) return fmt::format("{} KB", bytes >> 10);
  return fmt::format("{} MB", bytes >> 20);
}

}  // namespace

Recorder::Recorder(const RecordOptions& options, const Limits& limits, const recording::Library& library,
                   recording::Recording recording)
    : options_(options),
      library_(library),
      recording_(std::move(recording)),
      store_(library.store()),
      manifest_(recording::describe_start(options.command)),
      process_(options.engine),
      origin_{1, recording::Birth::Start, 0, 0, static_cast<uint64_t>(getpid())},
      tree_(recording_),
      log_(recording_.log_path(), origin_, tree_),
      published_(recording_.base(), [this] { tell_all(); }),
      chaos_(options.chaos) {
  process_.limits = limits;
  manifest_.describe_host(options.host);
  auto level = parse_cpu_level(options.cpu);
  if (!level)
    throw Error(fmt::format("unknown CPU level '{}': use x86-64-v1, x86-64-v2 or x86-64-v3", options.cpu),
                kExitUsage);
  prepare(*level);
  // Programs close their stderr (ls does); our own words must still get there.
  if (int copy = fcntl(2, F_DUPFD_CLOEXEC, 3); copy >= 0)
    bs_record.our_fds[kStderrFd] = stderr_ = recording::move_fd_high(copy);
  bs_record.fd_kind[1] = recording::kToStdout;
  bs_record.fd_kind[2] = recording::kToStderr;
}

Recorder::Recorder(const Succession& before, const recording::Library& library,
                   recording::Recording recording)
    : options_(before.options),
      library_(library),
      recording_(std::move(recording)),
      store_(library.store()),
      manifest_(recording::describe_start(before.options.command)),
      process_(before.options.engine),
      origin_(before.origin),
      tree_(recording_),
      log_(recording_.log_path(origin_.process), origin_, tree_),
      published_(recording_.base(), [this] { tell_all(); }),
      program_(origin_.process),
      leader_(before.leader),
      before_(std::make_unique<Succession>(before)),
      chaos_(before.options.chaos) {
  if (before.foreign) live_in_foreign_namespace();
  manifest_.env = before.env;
  process_.limits = before.limits;
  prepare(parse_cpu_level(options_.cpu).value());
  if (before.folder_fd >= 0) {
    use_folder(before.folder_fd);
    fcntl(before.folder_fd, F_SETFD, FD_CLOEXEC);
    root_ = before.root;
    choose_store();
  }
  stderr_ = bs_record.our_fds[kStderrFd] = before.stderr_fd;
  if (stderr_ >= 0) fcntl(stderr_, F_SETFD, FD_CLOEXEC);
  for (auto [fd, kind] : before.fd_kinds)
    if (fd < kTrackedFds) bs_record.fd_kind[fd] = static_cast<uint8_t>(kind);
  started_ns_ = 0;
  process_.current().filters = load_filters(before.filters);
  bs_record.filtered = !before.filters.empty();
}

Recorder::~Recorder() = default;

void Recorder::prepare(CpuLevel level) {
  process_.code_is_there = [this](uint64_t first, uint64_t last) { return own_code(first, last); };
  HotState& s = bs_record;
  s.log = &log_.appender();
  s.tree_files = &tree_.shared_files();
  if (origin_.process == 1) tree_.note_outputs();
  s.tree_numbers = tree_.numbers();
  s.orders = tree_.orders();
  s.writers[0] = tree_.writer(STDOUT_FILENO);
  s.writers[1] = tree_.writer(STDERR_FILENO);
  s.me = static_cast<uint64_t>(getpid()) << 32 | origin_.process;
  s.cpu = level;
  if (level < CpuLevel::V3) process_.xcr0 &= 3;
  s.xcr0 = process_.xcr0;
  s.chaos = chaos_.on();
  manifest_.chaos = options_.chaos;
  s.next_checksum = options_.check_deep ? 0 : ~0ull;
  for (int& fd : s.our_fds) fd = -1;
  s.crowded_from = INT_MAX;
  s.our_fds[kLogFd] = log_.fd();
  if (void* vdso = dlopen("linux-vdso.so.1", RTLD_NOLOAD | RTLD_NOW))
    s.vdso_clock_gettime = reinterpret_cast<long (*)(int, void*)>(dlsym(vdso, "__vdso_clock_gettime"));
  look_after_space();
  published_.begin();
  bs_record.letters = published_.letters_flag();
  process_.map.set_listener(&published_);
  engine::bs_hooks = {record_syscall_hot, record_host_op_hot, record_signal_hot, nullptr};
  manifest_.cpu.level = cpu_level_name(level);
  manifest_.cpu.shown = shown_features(level);
  manifest_.cpu.shown["xcr0"] = process_.xcr0;
}

void Recorder::load() {
  StartOptions start;
  start.argv = options_.command;
  if (before_) {
    start.path = before_->path;
    start.env = before_->env;
  } else {
    for (char** e = environ; *e; e++) start.env.emplace_back(*e);
    start.ask_kernel = true;
  }
  start.stack_size = process_.limits.stack.soft;
  start.hwcap = getauxval(AT_HWCAP);
  start.hwcap2 = engine::this_machine().fsgsbase ? 2 : 0;
  if (getrandom(start.random, sizeof start.random, 0) != sizeof start.random)
    throw Error("cannot get random bytes for the program's start: " + errno_text(errno));
  start_ = load_program(start, *this);
  if (before_ && before_->program_fd >= 0) ::close(before_->program_fd);
  manifest_.exe = start_.exe;
  process_.initialized_data = start_.initialized_data;
  const uint64_t arguments = page_up(start_.stack_end - start_.rsp);
  process_.first_stack = std::max(arguments, std::min(arguments + kStackAtStart, process_.limits.stack.soft));
  inherit_signals();
  const std::string name =
      before_ ? before_->name : std::filesystem::path(options_.command[0]).filename().string();
  prctl(PR_SET_NAME, name.c_str());
  save_manifest();

  process_.keep_translations(options_.engine.translations);
  Context& ctx = context();
  std::memset(ctx.gpr, 0, sizeof ctx.gpr);
  ctx.gpr[RSP] = start_.rsp;
  ctx.rip = start_.rip;
  ctx.rflags = 0x202;
  log_.reserve(4096);
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::Start, 0, 0, {0, next_order()});
  for (uint64_t r : ctx.gpr) at = recording::put_varint(at, r);
  at = recording::put_varint(at, ctx.rip);
  at = recording::put_varint(at, ctx.rflags);
  uint64_t ignored = 0;
  for (int signo = 1; signo <= kSignals; signo++)
    if (process_.actions[signo].handler == 1) ignored |= 1ull << (signo - 1);
  at = recording::put_varint(at, ignored);
  at = recording::put_varint(at, process_.signals.mask);
  process_.current().tid = gettid();
  turns_.current().thread = &process_.current();
  at = recording::put_varint(at, static_cast<uint64_t>(process_.current().tid));
  log.commit(at);
  if (!before_) name_channels();
  tell_start();
  watch_stack_ = process_.limits.space.soft != Limit::kNone;
  fit_stack();
  published_.set_state(PublishedHead::Ready);
  if (start_.lost_privilege) {
    const std::string note =
        "the program file is setuid, setgid or has capabilities; it runs without these privileges";
    say(note);
    note_once(note);
  }
}

void Recorder::map(const Region& region, int fd) {
  if (region.name != kStackName &&
      !process_.room_for_mapping(region.start, region.end, is_data(region.prot, region.flags)))
    throw LoadError("the limits on memory (ulimit -v, ulimit -d) leave no room for the program", ENOMEM);
  std::string key = fd >= 0 ? keep(fd, {}) : "";
  Fd copy(key.empty() ? -1 : store_.open(key));
  Region r = region;
  r.content = content_of(key);
  if (long err = process_.map_region(r, copy.get()))
    throw Error(fmt::format("cannot map {} at {:#x}: {}", region.name.empty() ? "memory" : region.name,
                            region.start, errno_text(static_cast<int>(-err))));
  log_map(region, key);
  note_kept(region, key);
}

void Recorder::write(uint64_t addr, std::span<const std::byte> bytes) {
  if (!process_.readable(addr, bytes.size()))
    throw Error("internal error: loading writes outside of its mappings");
  std::memcpy(reinterpret_cast<void*>(addr), bytes.data(), bytes.size());
  log_memory(addr, bytes.size());
}

void Recorder::log_memory(uint64_t addr, uint64_t size, uint8_t flags) {
  if (!log_.reserve(size + 64)) return;
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::Memory, flags, 0);
  at = recording::put_varint(at, addr);
  if (!bs_guarded_copy(at, reinterpret_cast<const void*>(addr), size)) return;
  log.commit(at + size);
}

void Recorder::run() {
  note_inherited_files();
  started_ns_ = before_ ? before_->started_ns : monotonic_ns();
  set_real_actions();
  set_real_mask();
  watch_descriptors();
  start_checkpoints();
  for (;;) {
    try {
      const engine::Stop stop = process_.engine().run();
      look_after_guest(stop);
      react(stop);
    } catch (const LodgerEnded&) {
      // Another thread goes on.
    }
    if (process_.engine().is_half_done()) {
      context().stop_request = 1;
      before_guest();
      continue;
    }
    if (bs_record.checkpoint_request) make_checkpoint();
    // A turn that passes drops the request to stop (deliver_pending), also one that came for these two in the
    // meantime: so look again behind it.
    do {
      if (bs_record.turn_request) preempt();
      if (bs_record.share_request) serve_shared();
      if (stop_asked_) serve_stop();
      serve_letters(false);
    } while (bs_record.turn_request);
    // What the current thread did may have made another one ready, and it may never stop by itself.
    if (bs_record.threads && turns_.anyone_ready()) arm_timer();
    before_guest();
  }
}

void Recorder::before_guest() {
  if (!opened_.empty()) close_views();
  if (bs_record.outsider) look_for_outsiders();
  leave_for_guest();
  begin_holds();
}

void Recorder::react(const engine::Stop& stop) {
  switch (stop.kind) {
    case engine::Stop::Syscall:
      on_syscall();
      break;
    case engine::Stop::HostOp:
      on_host_op(stop.insn);
      break;
    case engine::Stop::Fault:
      on_fault(stop.fault);
      break;
    case engine::Stop::BadFetch:
      on_fault(process_.bad_fetch(context().rip));
      break;
    case engine::Stop::Signal:
      if (!stop.fault.exact) die(stop.fault.signo, 0, true, true);
      // On the way to this boundary the engine has used traps of its own, and while one of those is under way
      // the kernel forgets a SIGTRAP that somebody sends: so it may stand for all of them.
      if (bs_record.threads) {
        bs_record.turn_request = true;
        bs_record.share_request = true;
      }
      deliver_pending(0, 0);
      break;
    case engine::Stop::Break:
    case engine::Stop::Watched:
    case engine::Stop::TickStop:
      end_budget();
      break;
  }
}

// Chaos: the budget is used up. A turn that could pass only at counted branches would never come between two
// instructions that follow each other, which is where races hide: go on for a few instructions.
void Recorder::end_budget() {
  Context& ctx = context();
  constexpr uint64_t kMostSteps = 12;
  for (uint64_t steps = chaos_.on() && bs_record.threads ? chaos_.below(kMostSteps) : 0; steps > 0; steps--) {
    ctx.limit = ctx.tick + 1;
    leave_for_guest();
    auto stop = process_.engine().step();
    look_after_guest(stop);
    if (stop && stop->kind != engine::Stop::TickStop) {
      ctx.limit = ctx.tick + 1 + chaos_.budget();
      return react(*stop);
    }
  }
  ctx.limit = chaos_.on() ? ctx.tick + 1 + chaos_.budget() : ~0ull;
  yielded_ = bs_record.threads;
  if (yielded_) bs_record.turn_request = true;
}

void Recorder::on_syscall() {
  Context& ctx = context();
  HotState& s = bs_record;
  uint64_t nr = ctx.gpr[RAX];
  uint64_t args[6];
  syscall_args(ctx, args);
  const Syscall& row = syscall_row(nr);
  if (s.filtered && !s.executed && filtered_call(nr, args)) return;
  if (s.sharing && !s.executed) own_arguments(row, nr, args);
  if (!s.executed && (s.shared_files || *s.tree_files) && (row.traits & kChangesFiles))
    own_changed_file(nr, args);
  if (!s.executed && nr == SYS_sendmsg) hand_out_sent(static_cast<int>(args[0]), args[1], 1);
  if (!s.executed && nr == SYS_sendmmsg) hand_out_sent(static_cast<int>(args[0]), args[1], args[2]);
  if (!s.executed) begin_order(row, nr, args);
  int64_t result;
  std::optional<int64_t> by_name;  // files that are not what the kernel would take them for
  if (!s.executed && s.shared_files && (row.traits & kChangesFiles)) by_name = write_memory(nr, args);
  if (!s.executed && (nr == SYS_stat || nr == SYS_lstat || nr == SYS_newfstatat || nr == SYS_statx))
    by_name = do_stat(nr, args);
  if (!s.executed && nr == SYS_ioctl && kind_of(args[0]) & kFdMaps) by_name = query_map(args);
  if (s.executed) {  // by the hot half
    result = s.result;
    s.executed = false;
    if (!s.logged) log_call(row, nr, args, result);
    ctx.gpr[RAX] = static_cast<uint64_t>(result);
  } else if (by_name) {
    ctx.gpr[RAX] = static_cast<uint64_t>(result = *by_name);
  } else if (Begun begun = s.threads ? thread_call(row, nr, args, result) : Begun::NotMine;
             begun != Begun::NotMine) {
    if (begun == Begun::Blocked) return;
    ctx.gpr[RAX] = static_cast<uint64_t>(result);
  } else {
    switch (row.how) {
      case How::Plain:
        if (has_unknown_argument(row, ctx)) {
          result = unknown_call(nr, args);
          break;
        }
        if (nr == SYS_process_vm_writev || nr == SYS_process_vm_readv) {
          result = do_process_vm(row, nr, args);
          break;
        }
        if (row.traits & kChangesRights) {
          result = do_rights(row, nr, args);
          break;
        }
        if (nr == SYS_mlockall) {  // it would lock our tables, which are mostly empty address space
          constexpr uint64_t kAll = MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT;
          result = args[0] == 0 || (args[0] & ~kAll) || args[0] == MCL_ONFAULT ? -EINVAL : 0;
          if (result == 0) note_once("mlockall was accepted but is not enforced");
          log_call(row, nr, args, result, false);
          break;
        }
        result = execute(row, nr, args);
        // Somebody who came while it waited: what it was given is now what that one has made of it.
        if (s.segments && concerns_segments(row, args) && look_at_segments()) own_arguments(row, nr, args);
        if (nr == SYS_shmctl) show_attachments(args, result);
        log_call(row, nr, args, result);
        if (row.traits & kChangesFiles) log_file_change(nr, args, result);
        break;
      case How::Refuse:
        result = -ENOSYS;
        if (nr != SYS_rseq && nr != SYS_clone3)
          note_once(fmt::format("{} was answered with ENOSYS", row.name));
        log_call(row, nr, args, result, false);
        break;
      case How::Unknown:
        result = unknown_call(nr, args);
        break;
      case How::Special:
      default:
        result = special(row, nr, args);
        if (watch_stack_ && stack_fits_ != process_.map.version() && !vfork_) fit_stack();
        break;
    }
    if (nr != SYS_rt_sigreturn) ctx.gpr[RAX] = static_cast<uint64_t>(result);
  }
  after_call(nr, args, result);
}

void Recorder::after_call(uint64_t nr, const uint64_t args[6], int64_t result) {
  if (result == kNotMade) {
    // From here on as between two instructions, of which the next is the call.
    context().rip -= 2;
    context().gpr[RAX] = nr;
    return deliver_pending(0, 0);
  }
  if (auto mask = waiting_mask(nr, args)) {
    if (result != -EINTR) {
      process_.restore_mask();
    } else if (!process_.signals.restore_mask) {
      process_.suspend_mask(*mask);
    }
  }
  if (bs_record.crowded) stay_ahead();
  if (log_.active() && log_.appender().events >= bs_record.next_checksum) take_memory_checksum();
  deliver_pending(nr, result);
  if (process_.signals.restore_mask) {
    process_.restore_mask();
    set_real_mask();
  }
}

void Recorder::take_memory_checksum() {
  log_.reserve(4096);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  uint8_t* at = log.begin(EventKind::Checksum, 0, 0);
  at = log.put_place(at, context().tick, context().rip);
  at = recording::put_u32(at, process_.memory_checksum());
  log.commit(at);
  bs_record.next_checksum = log.events + kDeepInterval;
}

void Recorder::on_host_op(const isa::Insn& insn) {
  const engine::HostOp op = engine::host_op_of(insn);
  if (is_trapped(op)) {
    on_guest_fault({SIGSEGV, SI_KERNEL, 0, 0, 13, 0, 0});
  } else if (op != engine::HostOp::None) {  // the hot half found no room, or leaves it to us
    log_.reserve(4096);
    record_host_op(context(), insn);
  } else {
    if (bs_record.sharing) own_operands();
    if (auto fault = process_.emulate(insn)) on_fault(*fault);
  }
}

// --- what others see of us in /proc ---

// The child of a vfork has our books for a while, but is another process.
void Recorder::tell_signals() {
  if (vfork_ || process_.current().lodger) return;
  const SignalSets sets = signal_sets(process_);
  published_.signals(sets.ignored, sets.caught);
}

void Recorder::tell_thread(const Thread& thread) {
  if (vfork_ || thread.tid == 0 || thread.lodger) return;
  const uint64_t mask = &thread == &process_.current() ? process_.signals.mask : thread.signals.mask;
  published_.thread({thread.tid, mask, count(thread.filters), 0, {}});
  if (!bs_record.threads) return;
  Task* task = turns_.current().thread == &thread ? &turns_.current() : turns_.by_tid(thread.tid);
  if (task && !task->shown) task->shown = published_.thread_word(thread.tid);
}

void Recorder::tell_threads() {
  for (const auto& [name, thread] : process_.threads()) tell_thread(*thread);
}

void Recorder::tell_fds() {
  published_.our_fds(bs_record.our_fds);
  watch_descriptors();
}

void Recorder::tell_limits() {
  if (!vfork_) published_.limits(process_.limits);
}

void Recorder::tell_start() {
  published_.program(program_);
  published_.exe(start_.exe);
  published_.exe_file(start_.exe_file);
  published_.auxv(start_.auxv);
  published_.layout(program_layout());
  // The first process has another command line for the kernel, and not all may read its manifest.
  if (start_.argv != manifest_.argv || origin_.process == 1) published_.argv(joined(start_.argv));
  tell_fds();
  tell_limits();
  published_.first_stack(process_.first_stack);
  tell_signals();
  tell_threads();
}

void Recorder::tell_all() {
  tell_start();
  process_.map.for_each([this](const Region& r) { published_.on_add(r); });
}

void Recorder::note_once(const std::string& text) {
  if (detached_ || !notes_.insert(text).second) return;
  log_.note(text);
  manifest_.notes.push_back(text);
}

void Recorder::close_recording(EndKind kind, int64_t status, Address pc, bool asynchronous) {
  Context& ctx = context();
  bool stopped = !log_.active();
  if (stopped && !log_.stopped().empty()) {
    manifest_.notes.push_back(
        fmt::format("the recording ends early: {} (the program ran on)", log_.stopped()));
    kind = EndKind::Stopped;
  }
  uint64_t events = log_.appender().events + (stopped ? 0 : 1);
  Tick ticks = stopped ? log_.appender().tick : ctx.tick;
  log_.end(kind, status, ctx.tick, pc, asynchronous ? recording::kAsynchronous : 0);
  manifest_.end_now(kind, status, ticks, events);
  if (kind == EndKind::Signal && pc) manifest_.end->crash = ControlPoint{ctx.tick, pc};
  save_manifest();
  const bool crashed = kind == EndKind::Signal && recording::is_crash(static_cast<int>(status));
  if (crashed) tree_.note_crash(origin_.process);
  pack_at_end();
  auto& end = *manifest_.end;
  std::string more;
  if (const uint64_t logs = tree_.last_number(); logs > 1) more += fmt::format(", {} process logs", logs);
  if (manifest_.chaos) more += fmt::format(", chaos seed {}", *manifest_.chaos);
  say(fmt::format("recorded {:.3f} s, {} ticks, {} events, {} in {}{}{}",
                  static_cast<double>(monotonic_ns() - started_ns_) / 1e9, end.ticks, end.events,
                  human_size(log_.size()), recording_.dir(), more,
                  stopped ? " (ended early: " + log_.stopped() + ")" : ""));
  if (leader_ && !crashed && tree_.first_crash()) say_crash();
  if (options_.engine.statistics) say(process_.engine().statistics());
  drop_all_live();
  if (leader_) {
    shared_control::clean(recording_.base());
    clean_published(recording_.base());
  }
  if (shares_files_) log_.abandon();  // the end of this process would not close it
}

// The program ends as if all were well, but a process of the tree does not.
void Recorder::say_crash() {
  const uint64_t number = tree_.first_crash(), others = tree_.crashes() - 1;
  recording::Manifest manifest;
  try {
    manifest = recording::Manifest::load(recording_.manifest_path(number));
  } catch (const Error&) {
    return;  // `ps` will tell
  }
  std::string command;
  for (const std::string& word : manifest.argv) command += (command.empty() ? "" : " ") + word;
  const char* signal = manifest.end ? sigabbrev_np(static_cast<int>(manifest.end->status)) : nullptr;
  if (!signal) return;
  constexpr size_t kMost = 60;
  if (command.size() > kMost) command = command.substr(0, kMost) + "…";
  say(fmt::format("process #{} ({}) died of SIG{}{}; backstep replay -p '#{}' shows it", number, command,
                  signal, others ? fmt::format(", and {} more crashed", others) : "", number));
}

void Recorder::save_manifest() {
  try {
    manifest_.save(recording_.manifest_path(origin_.process), origin_.process != 1);
  } catch (const Error& e) {
    say(e.what());
  }
}

void Recorder::say(const std::string& text) const {
  if (options_.quiet || detached_ || !leader_ || stderr_ < 0) return;
  std::string line = "backstep: " + text + "\n";
  (void)!::write(stderr_, line.data(), line.size());
}

// What can still be seen of a process that has ended and was not collected: signals and limits become those
// of the program. From here on signals have their natural effect, so all are blocked. Returns the mask to end
// with: the program's, unless a signal is pending that would end it otherwise than it has.
uint64_t Recorder::leave_real_state(int deadly) {
  if (!vfork_) bs_wakeups.idle = 1;  // bodies need not wake us
  const uint64_t all = ~0ull, deadly_bit = deadly ? 1ull << (deadly - 1) : 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, 8);
  for (int timer : {timer_, checkpoint_timer_, look_timer_})
    if (timer >= 0 && !vfork_) syscall(SYS_timer_delete, timer);
  const KernelSigaction ignore{1, 0, 0, 0};
  syscall(SYS_rt_sigaction, SIGTRAP, &ignore, nullptr, 8);  // forgets those that are ours
  for (int signo = 1; signo <= kSignals; signo++) {
    if (signo == SIGKILL || signo == SIGSTOP) continue;
    KernelSigaction real{};
    real.handler = signo == deadly ? 0 : process_.action(signo).handler;
    if (real.handler <= 1 || is_synchronous(signo)) syscall(SYS_rt_sigaction, signo, &real, nullptr, 8);
  }
  hand_to_kernel(process_.limits);
  // The kernel shows that of the first thread.
  const Thread* first = process_.thread(1);
  uint64_t mask =
      !first || first == &process_.current() || vfork_ ? process_.signals.mask : first->signals.mask;
  mask &= ~deadly_bit;
  // SIGTRAP is how other processes, bodies and timers talk to us, and some may not know yet that we are gone.
  const bool spoken_to = bs_record.sharing || !objects_.empty() || bs_record.our_fds[kQueueFd] >= 0 ||
                         !thread_timers_.empty() ||
                         std::any_of(turns_.tasks().begin(), turns_.tasks().end(),
                                     [](auto& task) { return task.second->wait == Task::Wait::Call; });
  if (spoken_to && deadly != SIGTRAP) mask |= 1ull << (SIGTRAP - 1);
  uint64_t pending = 0;
  syscall(SYS_rt_sigpending, &pending, 8);
  return pending & ~mask & ~deadly_bit ? ~deadly_bit : mask;
}

void Recorder::finish(EndKind kind, int64_t status, Address pc) {
  if (vfork_) {
    vfork_end_ = VforkEnd{0, pc};
  } else {
    kill_lodgers();
    leave_shared();
    if (!detached_) {
      close_recording(kind, status, pc);
      process_.engine().save_translations();
    }
  }
  vfork_ ? published_.vforked(vfork_depth_ - 1, 0) : published_.end();
  quiet_bodies();
  const uint64_t mask = leave_real_state(0);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, 8);
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

void Recorder::die(int signo, Address pc, bool asynchronous, bool all) {
  if (process_.current().lodger && !all) {
    end_lodger(-signo, pc == context().rip);
    throw LodgerEnded{};
  }
  if (vfork_) {
    // Behind an instruction (or a fault's own), or in the middle of the call that sent the signal.
    const bool behind = pc == context().rip;
    vfork_end_ = VforkEnd{behind ? static_cast<uint8_t>(recording::kAsynchronous) : uint8_t{0}, pc};
  } else {
    kill_lodgers();
    leave_shared();
    if (!detached_) {
      close_recording(EndKind::Signal, signo, pc, asynchronous);
      process_.engine().save_translations();
    }
  }
  vfork_ ? published_.vforked(vfork_depth_ - 1, 0) : published_.end();
  quiet_bodies();
  const bool with_core = leaves_core(signo);
  if (with_core) send_bodies_off(signo);
  const uint64_t mask = leave_real_state(signo);
  if (with_core) end_with_core(signo, mask);
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  core.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &core);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, 8);
  if (getpid() == 1) make_fault(signo);
  syscall(SYS_tgkill, getpid(), gettid(), signo);
  syscall(SYS_exit_group, 128 + signo);
  __builtin_unreachable();
}

}  // namespace backstep::recorder
