// Replaying: the same guest, the same engine, all answers from the log.
//
// Every event is compared before it is used: its kind, tick, program counter, a digest of all general
// registers, arguments, and checksums of what the call reads. The first difference ends the replay with both
// sides told.
#include "replay/replayer.h"

#include <fmt/format.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/fd.h"
#include "engine/host_ops.h"
#include "guest/buffers.h"
#include "guest/cpu.h"
#include "guest/loadable.h"
#include "guest/syscall_print.h"
#include "recording/event_check.h"
#include "recording/made_here.h"
#include "replay/agent_expression.h"

namespace backstep::replayer {

using namespace guest;
using recording::EndKind;
using recording::Event;
using recording::EventHeader;
using recording::EventKind;

namespace {

const char* kind_name(EventKind kind) {
  switch (kind) {
    case EventKind::Syscall:
      return "system call";
    case EventKind::Instr:
      return "instruction result";
    case EventKind::Signal:
      return "signal";
    case EventKind::Map:
      return "mapping";
    case EventKind::Memory:
      return "memory contents";
    case EventKind::Start:
      return "start";
    case EventKind::Checksum:
      return "checksum";
    case EventKind::Note:
      return "note";
    case EventKind::Channel:
      return "name of a channel";
    case EventKind::End:
      return "end";
    case EventKind::Turn:
      return "turn of a thread";
    case EventKind::Shared:
      return "change of shared memory by another process";
    case EventKind::Resize:
      return "change of a file's size by another process";
    case EventKind::Gap:
      return "gap";
    default:
      return "unknown event";
  }
}

// A kernel refuses others; here they would be loaded.
void check_thread_base(const uint64_t clone_args[6]) {
  if (clone_args[0] & CLONE_SETTLS && !is_base(clone_args[4]))
    throw Error("the log is damaged: a thread with a segment that no CPU has", kExitDivergence);
}

std::string call_text(uint64_t nr, const uint64_t args[6]) {
  const Syscall& row = syscall_row(nr);
  std::string text = fmt::format("{}(", row.name ? row.name : fmt::format("syscall_{}", nr));
  for (int i = 0; i < row.argc; i++) text += fmt::format("{}{:#x}", i ? ", " : "", args[i]);
  return text + ")";
}

}  // namespace

std::string place(Tick tick, Address pc) {
  return fmt::format("@{}:{:#x}", tick, pc);
}

Replayer::Replayer(const ReplayOptions& options, const recording::Library& library,
                   recording::Recording recording)
    : options_(options), library_(library), recording_(std::move(recording)), process_(options.engine) {
  choose_logs();
  // The CPU that was shown is the same for the whole tree.
  recording::Manifest manifest = recording_.manifest();
  std::string missing = missing_features(manifest.cpu.shown);
  if (!missing.empty())
    throw Error(fmt::format(
        "this recording was made on a CPU ({}) with features that this machine lacks ({}). Replay it on "
        "a machine that has them, or record it with --cpu=x86-64-v2.",
        manifest.cpu.model, missing));
  // The vector state in signal frames is what the guest was shown then, not what this machine has.
  if (auto xcr0 = manifest.cpu.shown.find("xcr0"); xcr0 != manifest.cpu.shown.end()) {
    if (xcr0->second & ~process_.xcr0)
      throw Error(
          fmt::format("this recording was made on a CPU ({}) with vector registers that this machine lacks",
                      manifest.cpu.model));
    process_.xcr0 = xcr0->second;
  }
  bs_replay.output = path_.empty();
  if (options.progress) bs_replay.size = log_->size();
  engine::bs_hooks = {replay_syscall_hot, replay_host_op_hot, replay_signal_hot, reached_hot};
}

void Replayer::save_translations() {
  if (recording::was_made_here(recording_.base())) process_.engine().save_translations();
}

// Where to begin: the log that is wanted, or the one of the ancestor that it was forked from.
void Replayer::choose_logs() {
  open_log(options_.process);
  while (static_cast<recording::Birth>(log_->header().birth) == recording::Birth::Fork) {
    const auto& header = log_->header();
    path_.insert(path_.begin(), {header.process, header.parent_event, static_cast<int>(header.pid)});
    if (header.parent >= header.process)
      throw Error("the recording is damaged: a process was started before its parent", kExitDivergence);
    open_log(header.parent);
  }
}

void Replayer::open_log(uint64_t process) {
  log_ = std::make_unique<recording::LogFile>(recording_.log_path(process));
  if (log_->header().process != process)
    throw Error(fmt::format("the recording is damaged: {} is the log of process {}",
                            recording_.log_path(process), log_->header().process),
                kExitDivergence);
  HotState& s = bs_replay;
  s.p = s.end = nullptr;
  s.event = 0;
  s.position = 0;
  if (options_.progress) s.size = log_->size();
}

bool Replayer::follow_child() {
  if (const uint64_t child = child_here(); child && fork_off(child)) {
    options_.process = child;
    path_.push_back({child, bs_replay.event, 0});
  }
  if (!at_fork()) return false;
  event_base_ += path_[path_at_].event;
  open_log(path_[path_at_++].process);
  process_.keep_only_current();
  before_vfork_.clear();
  process_.current().tid = static_cast<int>(log_->header().pid);
  if (!hold_signals_) bs_replay.output = path_at_ == path_.size();
  if (series_ && child_at) begin_checkpoints();
  return true;
}

bool Replayer::peek(EventHeader& header) {
  HotState& s = bs_replay;
  while (s.p == s.end) {
    auto chunk = log_->next();
    if (!chunk) return false;
    s.p = chunk->events.data();
    s.end = s.p + chunk->events.size();
    s.event = chunk->first_event;
    s.tick = chunk->first_tick;
    s.position = log_->position();
    chunk_ = *chunk;
  }
  std::memcpy(&header, s.p, sizeof header);
  return true;
}

bool Replayer::take(Event& event) {
  EventHeader header;
  if (!peek(header)) return false;
  HotState& s = bs_replay;
  event.number = s.event;
  if (!recording::decode_event({s.p, header.size}, s.tick, event))
    throw Error(fmt::format("event {} of the log cannot be decoded: it is damaged", s.event),
                kExitDivergence);
  s.p += header.size;
  s.event++;
  return true;
}

std::string Replayer::event_text(const Event& e) const {
  switch (e.kind) {
    case EventKind::Syscall: {
      const Syscall& row = syscall_row(e.nr);
      return fmt::format("system call {} = {} at {}",
                         row.name ? call_text(e.nr, e.args) : std::to_string(e.nr), e.result,
                         place(e.tick, e.pc));
    }
    case EventKind::Signal:
      return fmt::format("signal {} at {}", e.signo, place(e.tick, e.pc));
    case EventKind::Instr:
      return fmt::format("result of an instruction at {}", place(e.tick, e.pc));
    case EventKind::End:
      return fmt::format("the end of the program at {}", place(e.tick, e.pc));
    default:
      return fmt::format("{} at {}", kind_name(e.kind), place(e.tick, e.pc));
  }
}

void Replayer::diverged(const Event& e, const std::string& logged, const std::string& now) {
  throw Error(
      fmt::format(
          "divergence at event {}, {}\n  recorded: {}\n  replayed: {}\nThe replay is not the recorded run "
          "from here on; please report this with the recording.",
          e.number, place(context().tick, context().rip), logged, now),
      kExitDivergence);
}

// Contents that came from outside; the mapping may be read-only for the guest.
void Replayer::set_memory(const Event& e) {
  const Region* r = process_.map.find(e.addr);
  if (!r || r->end - e.addr < e.length)
    throw Error("the log is damaged: contents for memory that is not mapped", kExitDivergence);
  uint64_t first = e.addr & ~(layout::kPage - 1),
           last = (e.addr + e.length + layout::kPage - 1) & ~(layout::kPage - 1);
  auto* page = reinterpret_cast<void*>(first);
  bool locked = !(r->prot & PROT_WRITE);
  if (locked) mprotect(page, last - first, PROT_READ | PROT_WRITE);
  bool ok = true;
  auto set = [&](uint64_t addr, std::span<const std::byte> bytes) {
    note_write(addr, bytes.size());
    ok &= bs_guarded_copy(reinterpret_cast<void*>(addr), bytes.data(), bytes.size());
  };
  if (e.kind == EventKind::Shared) {
    for (const recording::Piece& piece : e.pieces) set(piece.addr, piece.bytes);
  } else {
    set(e.addr, e.body);
  }
  if (locked) mprotect(page, last - first, r->prot & (PROT_READ | PROT_EXEC) ? PROT_READ : PROT_NONE);
  if (!ok) throw Error(fmt::format("cannot set memory at {:#x}", e.addr), kExitDivergence);
}

// … that may be code, or watched.
void Replayer::change_memory(const Event& e) {
  note_change(e.addr, e.addr + e.length);
  process_.engine().forget(e.addr, e.addr + e.length);
  process_.map.overwrite(e.addr, e.addr + e.length);
  process_.prepare_write(e.addr, e.addr + e.length);
  set_memory(e);
}

// Over a stretch of time that was not recorded (record_segments.cc): all that may be different behind it is
// in the log. If that ends before all of it is there, this is the end.
void Replayer::leap(const Event& gap) {
  Context& ctx = context();
  if (gap.digest != register_digest(ctx))
    diverged(gap, event_text(gap) + ", other registers", place(ctx.tick, ctx.rip));
  std::vector<Event> memory;
  while (memory.size() < gap.length) {
    Event e;
    if (!take(e)) return end_incomplete();
    if (e.kind != EventKind::Memory)
      throw Error(fmt::format("the log is damaged: {} in a gap", kind_name(e.kind)), kExitDivergence);
    memory.push_back(std::move(e));
  }
  if (!is_loadable_here(gap.body.data()))
    throw Error("the recording has vector registers that this machine lacks");
  constexpr size_t kRip = 16, kFlags = 17, kFs = 18, kGs = 19, kEvex = 20, kHi16 = 21;
  if (gap.values[kEvex]) {
    if (gap.values[kHi16] != engine::bs_cache.hi16_offset)
      throw Error(
          "the recording has AVX-512 registers in the form of another CPU; replay it on one like that");
    process_.engine().count_in_memory();
  }
  for (const Event& e : memory) change_memory(e);
  std::copy_n(gap.values.begin(), 16, ctx.gpr);
  ctx.rip = gap.values[kRip], ctx.rflags = gap.values[kFlags];
  ctx.fs_base = gap.values[kFs], ctx.gs_base = gap.values[kGs];
  static_assert(sizeof ctx.xsave == recording::kGapVectors);
  std::memcpy(ctx.xsave, gap.body.data(), sizeof ctx.xsave);
  ctx.tick = gap.tick + gap.ticks;
}

void Replayer::prepare() {
  Event e;
  while (take(e)) {
    switch (e.kind) {
      case EventKind::Map:
        apply_map(e);
        break;
      case EventKind::Memory:
        set_memory(e);
        break;
      case EventKind::Note:
      case EventKind::Channel:
        break;
      case EventKind::Start: {
        Context& ctx = context();
        for (int i = 0; i < 16; i++) ctx.gpr[i] = e.values[static_cast<size_t>(i)];
        ctx.rip = e.values[16];
        ctx.rflags = e.values[17];
        for (int signo = 1; signo <= kSignals; signo++)
          if (e.values[18] >> (signo - 1) & 1) process_.actions[signo].handler = 1;
        process_.signals.mask = e.values[19];
        process_.current().tid = static_cast<int>(e.values[20]);
        process_.keep_translations(options_.engine.translations);
        return;
      }
      default:
        throw Error(fmt::format("the log is damaged: {} before the start of the program", kind_name(e.kind)),
                    kExitDivergence);
    }
  }
  // Killed while it became another program: that is no damage.
  if (!log_->damage() && static_cast<recording::Birth>(log_->header().birth) == recording::Birth::Exec)
    return end_incomplete();
  throw Error(fmt::format("the recording holds no start of the program: {}",
                          log_->damage().value_or("the recorder ended before the program started")),
              kExitDivergence);
}

// Mappings come back from the kept contents, or as zeroes. Files that were mapped shared become one memory
// file each, so that several mappings of it show the same.
void Replayer::apply_map(const Event& e) {
  words_.map(e.addr, e.addr + e.length);
  note_change(e.addr, e.addr + e.length);
  if (e.flags & recording::kGone) {
    process_.sys_munmap(e.addr, e.length);
    return;
  }
  if (e.flags & recording::kRights) {
    if (process_.sys_mprotect(e.addr, e.length, static_cast<uint64_t>(e.prot)) != 0)
      throw Error("the log is damaged: other rights for memory that is not mapped", kExitDivergence);
    return;
  }
  Region r{e.addr, e.addr + e.length, e.prot, e.map_flags, e.offset, e.text, e.dev, e.inode};
  if (!(e.map_flags & MAP_SHARED)) r.content = content_of(e.key);
  Fd contents;
  int fd = -1;
  if (!e.key.empty()) {
    contents = Fd(library_.open_contents(recording_, e.key));
    fd = contents.get();
    if (verified_.insert(e.key).second && !recording::Store::matches(fd, e.key))
      throw Error(
          fmt::format("the kept contents of {} (key {}) are not what was recorded: the store is damaged",
                      e.text, e.key),
          kExitDivergence);
    if (e.map_flags & MAP_SHARED) fd = shared_file(e, fd);
    if (e.flags & recording::kLive) {
      fd = live_file(e, fd);
      r.content = {};
    }
  }
  if (e.key.empty() && e.inode && e.text.starts_with("/SYSV")) {
    // A System V segment may be attached several times. When nobody has it, what it holds is told anew.
    Fd& file = shared_[{e.dev, e.inode}];
    bool attached = false;
    process_.map.for_each([&](const Region& other) {
      attached |= (other.flags & MAP_SHARED) && other.dev == e.dev && other.inode == e.inode;
    });
    if (!attached) file = Fd(memfd_create("backstep-shared", MFD_CLOEXEC));
    if (!file || (!attached && ftruncate(file.get(), static_cast<off_t>(e.length)) != 0))
      throw Error(fmt::format("cannot make a memory file for {}: {}", e.text, errno_text(errno)));
    fd = file.get();
  }
  if (long err = process_.map_region(r, fd, MAP_NORESERVE))
    throw Error(fmt::format("cannot map {} at {:#x} for the replay: {}", e.text.empty() ? "memory" : e.text,
                            e.addr, errno_text(static_cast<int>(-err))));
}

void Replayer::react(const engine::Stop& stop) {
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
    case engine::Stop::Break:
    case engine::Stop::Watched:
    case engine::Stop::TickStop:
      break;
  }
}

// A signal that came in the middle of a computation is delivered at its control point: run to the quantum
// with the tick limit, then instruction by instruction to the program counter.
bool Replayer::reached(const Event& e) {
  Context& ctx = context();
  if (e.pc == 0 ? ctx.tick >= e.tick : ctx.tick == e.tick && ctx.rip == e.pc) return true;
  goal_ = ControlPoint{e.tick, e.pc};
  ctx.limit = e.tick;
  process_.engine().set_check(true);
  return false;
}

void Replayer::step_to_goal() {
  Context& ctx = context();
  ctx.limit = ctx.tick + 1;
  while (!outcome_ && ctx.tick == goal_->tick && goal_->pc != 0 && ctx.rip != goal_->pc)
    if (auto stop = process_.engine().step()) react(*stop);
  ctx.limit = ~0ull;
  if (outcome_) return;
  if (ctx.tick != goal_->tick) {
    Event e;
    take(e);
    diverged(e, event_text(e),
             fmt::format("the next tick, without having come by {}", place(goal_->tick, goal_->pc)));
  }
  goal_.reset();
  after_call(0, 0);
}

// A program that got something else than it got then may compute for ever and never come to the next event.
void Replayer::check_progress() {
  EventHeader header;
  if (goal_ || resume_call_ || outcome_ || !peek(header)) return;
  switch (static_cast<EventKind>(header.kind)) {
    case EventKind::Syscall:
    case EventKind::Instr:
    case EventKind::Turn:
    case EventKind::Signal:
      break;
    default:
      return;
  }
  Event e;
  Tick tick = bs_replay.tick;
  recording::decode_event({bs_replay.p, header.size}, tick, e);
  if (context().tick <= e.tick) return;
  take(e);
  diverged(e, event_text(e),
           fmt::format("nothing of the kind: it was passed by, the program is at {} and goes on computing",
                       place(context().tick, context().rip)));
}

void Replayer::begin_checkpoints() {
  series_.emplace(recording_, options_.process, options_.checkpoints);
  stored_before_.clear();
  for (const auto& c : recording::CheckpointFolder(recording_, options_.process).list(nullptr))
    stored_before_.insert(stored_before_.begin(), c.header.tick);
  process_.engine().set_check(true);
  look_at_ = context().tick + (1 << 16);
  looked_cpu_ = stored_cpu_ = recording::thread_cpu_seconds();
}

Outcome Replayer::run() {
  prepare();
  bs_replay.look_around = true;
  Context& ctx = context();
  if (options_.store_on_autopilot) begin_checkpoints();
  after_call(0, 0);
  while (!outcome_) {
    if (series_ && ctx.tick >= look_at_) store_on_the_way();
    if (resume_call_) {
      resume_call_ = false;
      on_syscall();
    } else if (goal_ && ctx.tick == goal_->tick) {
      step_to_goal();
    } else {
      if (series_) ctx.limit = std::min(goal_ ? goal_->tick : ~Tick{0}, look_at_);
      const engine::Stop stop = process_.engine().run();
      react(stop);
      if (stop.kind == engine::Stop::Signal) check_progress();
    }
  }
  bs_replay.look_around = false;
  // Where a recording was stopped the last event is its end, however far the program has run since.
  const bool stopped = outcome_->complete && outcome_->kind == EndKind::Stopped;
  outcome_->ticks = stopped ? outcome_->ticks : ctx.tick;
  outcome_->events = bs_replay.event;
  return *outcome_;
}

void Replayer::on_syscall() {
  Context& ctx = context();
  HotState& s = bs_replay;
  uint64_t nr = ctx.gpr[RAX];
  if (s.executed) {
    // Registers are done already; what matters for signals behind the call is its result.
    s.executed = false;
    uint64_t args[6];
    syscall_args(ctx, args);
    end_of_call(s.nr, args, static_cast<int64_t>(ctx.gpr[RAX]));
    return;
  }
  uint64_t args[6];
  syscall_args(ctx, args);
  const bool forks = nr == SYS_fork || nr == SYS_clone;
  if (forks) follow_child();
  Event e;
  if (!take(e)) return end_incomplete();
  while (e.flags & recording::kInCall &&
         (e.kind == EventKind::Memory || e.kind == EventKind::Shared || e.kind == EventKind::Resize)) {
    if (e.kind != EventKind::Memory && (e.tick != ctx.tick || e.pc != ctx.rip - 2 ||
                                        (e.kind == EventKind::Shared && e.digest != register_digest(ctx))))
      diverged(e, event_text(e),
               fmt::format("system call {} at {}", call_text(nr, args), place(ctx.tick, ctx.rip - 2)));
    if (e.kind == EventKind::Resize)
      resize(e);
    else
      change_memory(e);
    if (forks) follow_child();
    if (!take(e)) return end_incomplete();
  }
  if (e.kind == EventKind::Turn && !(e.flags & recording::kAsynchronous)) return pass_turn(e);
  // A thread that leaves may be met by a signal that kills the process: that end is the signal's, below.
  if (e.kind == EventKind::End && (nr == SYS_exit || nr == SYS_exit_group) && e.end != EndKind::Signal) {
    check_end(e, EndKind::Exit, static_cast<int>(args[0]) & 0xff);
    return end(e);
  }
  if (e.kind == EventKind::End && (nr == SYS_execve || nr == SYS_execveat) && e.end == EndKind::Exec)
    return end(e);
  if (e.kind == EventKind::End && e.end == EndKind::Stopped) return end(e);
  if (e.kind == EventKind::End && e.end == EndKind::Signal && e.pc == ctx.rip - 2 && e.tick == ctx.tick &&
      (e.result == SIGKILL || (e.flags & recording::kAsynchronous)))
    return end(e);
  std::string now = fmt::format("system call {} at {}", call_text(nr, args), place(ctx.tick, ctx.rip - 2));
  if (e.kind != EventKind::Syscall || e.nr != recording::logged_number(nr) || e.tick != ctx.tick ||
      e.pc != ctx.rip - 2)
    diverged(e, event_text(e), now);
  for (int i = 0; i < syscall_row(nr).argc; i++)
    if (e.args[i] != args[i]) diverged(e, event_text(e), now);
  if (uint32_t digest = register_digest(ctx); e.digest != digest)
    diverged(e, fmt::format("{}, registers with digest {:#x}", event_text(e), e.digest),
             fmt::format("{}, registers with digest {:#x}", now, digest));
  if (e.result == kNotMade) {
    process_.current().in_call = false;
    ctx.rip -= 2;
    return after_call(0, 0);
  }
  apply_call(e, args);
  int64_t result = e.result;
  const bool denied = e.flags & recording::kDenied;
  if (syscall_row(nr).how == How::Special && !denied) result = special(nr, args, e.result);
  if (result != e.result) diverged(e, event_text(e), fmt::format("{} = {}", now, result));
  process_.current().in_call = false;
  if (nr != SYS_rt_sigreturn || denied) ctx.gpr[RAX] = static_cast<uint64_t>(result);
  if (denied) return after_call(0, 0);
  end_of_call(nr, args, result);
}

void Replayer::end_of_call(uint64_t nr, const uint64_t args[6], int64_t result) {
  if (result == -EINTR)
    if (auto mask = waiting_mask(nr, args)) process_.suspend_mask(*mask);
  after_call(nr, result);
}

void Replayer::pass_turn(const Event& e) {
  using recording::TurnReason;
  Context& ctx = context();
  const auto reason = static_cast<TurnReason>(e.nr);
  const bool asynchronous = e.flags & recording::kAsynchronous;
  Thread& from = process_.current();
  if (reason == TurnReason::Vforked) {
    const bool clone = ctx.gpr[RAX] == SYS_clone;
    uint64_t args[6];
    syscall_args(ctx, args);
    if (clone) check_thread_base(args);
    Thread& child = process_.start_thread(clone ? ctx.gpr[RDI] : 0, clone ? ctx.gpr[RSI] : 0,
                                          clone ? ctx.gpr[R8] : 0, from.tid);
    before_vfork_.emplace_back(std::begin(process_.actions), std::end(process_.actions));
    if (child.name != e.next_thread) diverged(e, event_text(e), "a child of vfork with another name");
  }
  Thread* next = process_.thread(e.next_thread);
  const Address pc = asynchronous ? ctx.rip : ctx.rip - 2;
  if (e.tick != ctx.tick || e.pc != pc || e.digest != register_digest(ctx) || !next || next == &from)
    diverged(
        e, fmt::format("{} to thread {}", event_text(e), e.next_thread),
        fmt::format("thread {} at {}{}", from.name, place(ctx.tick, pc), next ? "" : ", no such thread"));
  from.in_call = !asynchronous;
  process_.turn_to(*next);
  if (reason == TurnReason::Ended) {
    process_.end_thread(from);
    if (!before_vfork_.empty()) {
      std::copy(before_vfork_.back().begin(), before_vfork_.back().end(), process_.actions);
      before_vfork_.pop_back();
    }
  }
  if (next->in_call) {
    resume_call_ = true;
  } else {
    after_call(0, 0);
  }
}

// Inputs are compared, outputs put into guest memory.
void Replayer::apply_call(const Event& e, const uint64_t args[6]) {
  const Syscall& row = syscall_row(e.nr);
  for (const recording::Piece& piece : e.pieces) {
    switch (piece.kind) {
      case recording::PieceKind::Sum: {
        uint64_t length = 0;
        uint32_t crc = 0;
        bool ok = input_sum(row, arg_spec(e.nr, args, piece.arg), args, piece.arg, e.result, &length, &crc);
        if (!ok || length != piece.length || crc != piece.crc)
          diverged(e,
                   fmt::format("{} with {} bytes of input, checksum {:#x}", event_text(e), piece.length,
                               piece.crc),
                   ok ? fmt::format("{} bytes, checksum {:#x}", length, crc) : "input that cannot be read");
        break;
      }
      case recording::PieceKind::Text:
      case recording::PieceKind::TextAt: {
        std::string now(piece.bytes.size(), 0);
        std::string then(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
        if (!bs_guarded_copy(now.data(), reinterpret_cast<const void*>(piece.addr), now.size()))
          now = "(unreadable)";
        if (now != then)
          diverged(e, fmt::format("{} with \"{}\"", event_text(e), then), fmt::format("\"{}\"", now));
        break;
      }
      default:
        if (!process_.map.is_mapped(piece.addr, piece.addr + piece.bytes.size()))
          diverged(e, event_text(e),
                   fmt::format("no memory at {:#x} for {} bytes", piece.addr, piece.bytes.size()));
        process_.prepare_write(piece.addr, piece.addr + piece.bytes.size());
        note_write(piece.addr, piece.bytes.size());
        // After a failed call the memory may be read-only: then it was not written, and must be what it was.
        if (!bs_guarded_copy(reinterpret_cast<void*>(piece.addr), piece.bytes.data(), piece.bytes.size()) &&
            !(process_.readable(piece.addr, piece.bytes.size()) &&
              std::memcmp(reinterpret_cast<void*>(piece.addr), piece.bytes.data(), piece.bytes.size()) == 0))
          diverged(e, event_text(e),
                   fmt::format("no writable memory at {:#x} for {} bytes", piece.addr, piece.bytes.size()));
        break;
    }
  }
  if (e.flags & (recording::kToStdout | recording::kToStderr))
    repeat_output(e.number, e.nr, args, e.result, e.flags);
}

// Memory whose mapping the call may change; new mappings are noted when they are made.
void Replayer::note_map_change(uint64_t nr, const uint64_t args[6], int64_t logged) {
  if (!written_.counting() && !words_.counting()) return;
  switch (nr) {
    case SYS_shmdt:
      process_.map.for_each([&](const Region& r) {
        if (r.name.starts_with("/SYSV") && r.start - r.offset == args[0]) note_change(r.start, r.end);
      });
      break;
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_madvise: {
      constexpr uint64_t kGrowsDown = 0x0100'0000;
      const Region* r = process_.map.find(args[0]);
      const bool whole = nr == SYS_mprotect && (args[2] & kGrowsDown) && r;
      note_change(whole ? r->start : args[0], args[0] + args[1]);
      break;
    }
    case SYS_mremap:
      note_change(args[0], args[0] + args[1]);
      if (!hot::is_error(logged)) {
        words_.map(static_cast<uint64_t>(logged), static_cast<uint64_t>(logged) + args[2]);
        note_change(static_cast<uint64_t>(logged), static_cast<uint64_t>(logged) + args[2]);
      }
      break;
    case SYS_brk: {
      const uint64_t before = process_.map.brk, after = static_cast<uint64_t>(logged);
      note_change(std::min(before, after), std::max(before, after));
      break;
    }
    default:
      break;
  }
}

// The calls whose effects on the guest's own state are computed again; others have only their result.
int64_t Replayer::special(uint64_t nr, const uint64_t args[6], int64_t logged) {
  note_map_change(nr, args, logged);
  switch (nr) {
    case SYS_shmdt:
      return logged == 0 ? process_.sys_shmdt(args[0]) : logged;
    case SYS_shmat:
    case SYS_mmap: {
      if (hot::is_error(logged)) return logged;
      Event map;
      if (!take(map)) {
        end_incomplete();
        return logged;
      }
      if (map.kind != EventKind::Map || map.addr != static_cast<uint64_t>(logged))
        diverged(map, event_text(map), "a new mapping");
      apply_map(map);
      return logged;
    }
    // Calls that failed: the kernel's reasons (limits, the rights that a file was opened with) are not there
    // in a replay. What they had done before is in the log.
    case SYS_munmap:
      return hot::is_error(logged) ? logged : process_.sys_munmap(args[0], args[1]);
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      return hot::is_error(logged) ? logged : process_.sys_mprotect(args[0], args[1], args[2]);
    case SYS_brk:  // one that was refused changes nothing: limits are not known here
      return static_cast<uint64_t>(logged) == args[0] ? process_.sys_brk(args[0])
                                                      : static_cast<int64_t>(process_.map.brk);
    case SYS_madvise:
      if (hot::is_error(logged) && logged != -ENOMEM) return logged;
      return process_.sys_madvise(args[0], args[1], args[2]);
    case SYS_mremap:
      if (hot::is_error(logged)) return logged;
      if (logged % static_cast<int64_t>(layout::kPage) ||
          !recording::is_guest_range(static_cast<uint64_t>(logged), layout::page_up(args[2])))
        throw Error("the log is damaged: memory is moved to where no program has any", kExitDivergence);
      return process_.sys_mremap(args, static_cast<uint64_t>(logged));
    case SYS_arch_prctl:
      return Process::is_base_prctl(args[0]) ? process_.sys_arch_prctl(args[0], args[1]) : logged;
    case SYS_rt_sigaction:
      return process_.sys_rt_sigaction(args);
    case SYS_rt_sigprocmask:
      return process_.sys_rt_sigprocmask(args);
    case SYS_sigaltstack:
      return process_.sys_sigaltstack(args[0], args[1]);
    case SYS_rt_sigreturn:
      if (!process_.sys_rt_sigreturn()) on_fault({SIGSEGV, SI_KERNEL, 0, 0, 13, 0, 0});
      return 0;
    case SYS_clone:
      check_thread_base(args);
      if (logged > 0 && ((args[0] & CLONE_THREAD) || is_lodger(args[0])))
        process_.start_thread(args[0], args[1], args[4], static_cast<int>(logged));
      if (logged == 0) {  // we are the child
        if (args[1]) context().gpr[RSP] = args[1];
        if (args[0] & CLONE_SETTLS) context().fs_base = args[4];
      }
      return logged;
    default:
      return logged;
  }
}

// What comes from outside waits at its control point: one can stop in front of it, and the thread stands
// behind its call there.
void Replayer::hold(const Event& e, uint64_t nr, int64_t result) {
  goal_ = ControlPoint{e.tick, e.pc};
  held_ = {nr, result};
}

// Behind a call (or at the start): notes, checksums, signals that were delivered here, the end of the log.
void Replayer::after_call(uint64_t nr, int64_t result) {
  Context& ctx = context();
  bool first = true;
  EventHeader header;
  while (!outcome_) {
    if (!peek(header)) {
      if (at_fork() || child_here())
        break;  // the parent was killed before it could log it; its child goes on from there
      return end_incomplete();
    }
    auto kind = static_cast<EventKind>(header.kind);
    Event e;
    if (recording::is_remark(kind)) {
      take(e);
    } else if ((kind == EventKind::Memory || kind == EventKind::Shared || kind == EventKind::Resize) &&
               (header.flags & recording::kInCall)) {
      break;  // of the next call
    } else if (kind == EventKind::Memory) {
      take(e);
      change_memory(e);
    } else if (kind == EventKind::Map) {  // of the initial stack, see record_limits.cc
      take(e);
      apply_map(e);
    } else if (kind == EventKind::FileSize) {
      take(e);
      resize(e);
    } else if (kind == EventKind::Resize) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      // In front of the access that shows it, whose own event compares the registers.
      if (!reached(e)) break;
      take(e);
      resize(e);
    } else if (kind == EventKind::Checksum) {
      take(e);
      uint32_t now = process_.memory_checksum();
      if (e.tick != ctx.tick || e.pc != ctx.rip || now != e.digest)
        diverged(e, fmt::format("memory checksum {:#x} at {}", e.digest, place(e.tick, e.pc)),
                 fmt::format("memory checksum {:#x} at {}", now, place(ctx.tick, ctx.rip)));
    } else if (kind == EventKind::Signal && (header.flags & recording::kAsynchronous)) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      held_ = {};
      if (!reached(e)) break;
      if (hold_signals_ && !deliver_) return hold(e, first ? nr : 0, first ? result : 0);
      deliver_ = false;
      take(e);
      if (e.tick != ctx.tick || e.pc != ctx.rip || e.digest != register_digest(ctx))
        diverged(e, event_text(e), fmt::format("the end of a system call at {}", place(ctx.tick, ctx.rip)));
      siginfo_t info;
      std::memcpy(&info, e.body.data(), std::min(sizeof info, e.body.size()));
      if (first) restart_interrupted(ctx, nr, result, process_.actions[e.signo]);
      first = false;
      if (!process_.push_handler(e.signo, info, TrapInfo{}) && !goes_on_without_stack(e.signo)) return;
    } else if (kind == EventKind::Shared) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      if (!reached(e)) break;
      if (e.digest != register_digest(ctx) && !shared_fault_) {
        // A repeated string instruction came to that page half-way. It will do so again, if the page is not
        // there.
        shared_fault_ = true;
        mprotect(reinterpret_cast<void*>(e.addr), e.length, PROT_NONE);
        break;
      }
      take(e);
      if (e.digest != register_digest(ctx))
        diverged(e, event_text(e) + ", other registers", place(ctx.tick, ctx.rip));
      change_memory(e);
    } else if (kind == EventKind::Gap) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      if (!reached(e)) break;
      if (hold_signals_ && !deliver_ && first) return hold(e, nr, result);
      deliver_ = false;
      take(e);
      leap(e);
    } else if (kind == EventKind::Turn && (header.flags & recording::kAsynchronous)) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      if (!reached(e)) break;
      if (hold_signals_ && !deliver_ && first) return hold(e, nr, result);
      deliver_ = false;
      take(e);
      process_.restore_mask();
      return pass_turn(e);
    } else if (kind == EventKind::End && (header.flags & recording::kAsynchronous)) {
      // Died of a signal that was sent: here, or (pc 0) while it was computing, in the quantum of that tick.
      // One can stop in front of that, as of any signal.
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      if (!reached(e)) break;
      if (hold_signals_ && !deliver_) {
        goal_ = {ctx.tick, e.pc};
        return;
      }
      take(e);
      end(e);
    } else if (kind == EventKind::End) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      if (e.end != EndKind::Stopped) break;
      take(e);
      end(e);
    } else {
      break;
    }
  }
  process_.restore_mask();
}

void Replayer::on_host_op(const isa::Insn& insn) {
  Context& ctx = context();
  engine::HostOp op = engine::host_op_of(insn);
  if (op != engine::HostOp::None) {
    // The program had it raise a signal (PR_SET_TSC): as for any fault, the log has that.
    EventHeader header;
    if (peek(header) && !(header.flags & recording::kAsynchronous) &&
        (header.kind == static_cast<uint8_t>(EventKind::Signal) ||
         header.kind == static_cast<uint8_t>(EventKind::End)))
      return on_fault({SIGSEGV, SI_KERNEL, 0, 0, 13, 0, 0});
    Event e;
    if (!take(e)) return end_incomplete();
    std::string now = fmt::format("instruction with outside result ({}) at {}", static_cast<int>(op),
                                  place(ctx.tick, ctx.rip));
    if (e.kind == EventKind::End && e.end == EndKind::Stopped) return end(e);
    if (e.kind != EventKind::Instr || e.nr != static_cast<uint16_t>(op) || e.tick != ctx.tick ||
        e.pc != ctx.rip || e.values.size() > 4)
      diverged(e, event_text(e), now);
    if (e.digest != register_digest(ctx)) diverged(e, event_text(e) + ", other registers", now);
    engine::HostValues values;
    values.count = static_cast<unsigned>(e.values.size());
    std::copy(e.values.begin(), e.values.end(), values.value);
    engine::apply(op, insn, values, ctx);
    return after_call(0, 0);
  }
  if (auto fault = process_.emulate(insn)) on_fault(*fault);
}

void Replayer::check_end(const Event& e, EndKind kind, int64_t status) {
  Context& ctx = context();
  if (e.end == EndKind::Stopped) return;
  if (e.end != kind || e.result != status || e.tick != ctx.tick || e.pc != ctx.rip - 2)
    diverged(e, fmt::format("the end with status {} at {}", e.result, place(e.tick, e.pc)),
             fmt::format("exit with status {} at {}", status, place(ctx.tick, ctx.rip - 2)));
}

void Replayer::end(const Event& e) {
  Outcome o;
  o.complete = true;
  o.kind = e.end;
  o.status = e.result;
  o.ticks = e.tick;
  o.damaged = log_->damage().has_value();
  if (o.damaged) o.incomplete = *log_->damage() + "; all of its events have been replayed";
  outcome_ = o;
}

void Replayer::end_incomplete() {
  Outcome o;
  o.damaged = log_->damage().has_value();
  o.incomplete = log_->damage()
                     ? *log_->damage() + "; what was before it has been replayed"
                     : "the recorder was ended before the program; all that it had logged has been replayed";
  outcome_ = o;
}

}  // namespace backstep::replayer
