// Child processes and new programs.
//
// fork      The child is a copy of everything, engine and all. It goes on with a log of its own, whose header
// says
//           where in its parent's log it begins: a replay of the child is a replay of the parent up to there.
// vfork     (also posix_spawn, clone with CLONE_VM|CLONE_VFORK.) The child runs in its parent's memory while
// the
//           parent waits, until it calls execve or ends. It is a thread, then, as far as memory is concerned,
//           and is logged as one, in the parent's log: real as a process for the kernel, with its own
//           descriptors and signals, but with our data structures, which it leaves to the parent as it found
//           them.
// execve    A real execve of `backstep`, which loads the new program under a new log (succession.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "base/room_for_memory.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/recorder.h"
#include "record/succession.h"
#include "recording/shared_folder.h"

namespace backstep::recorder {

using namespace guest;
using recording::Birth;
using recording::EndKind;
using recording::EventKind;
using recording::TurnReason;

namespace {

// argv or envp. 0, -EFAULT or -E2BIG.
int64_t guest_list(uint64_t addr, std::vector<std::string>& list) {
  constexpr uint64_t kMostText = 32 * 4096;
  constexpr size_t kMostItems = 1 << 20;
  for (; addr; addr += 8) {
    uint64_t item;
    if (!read_guest(addr, &item)) return -EFAULT;
    if (item == 0) break;
    auto text = guest_text(item, kMostText);
    if (!text) return -EFAULT;
    if (text->size() >= kMostText || list.size() >= kMostItems) return -E2BIG;
    list.push_back(std::move(*text));
  }
  return 0;
}

// 0: the file could be executed, as far as its name and rights say.
int64_t why_not_executable(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return -errno;
  if (!S_ISREG(st.st_mode)) return -EACCES;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

std::vector<char*> pointers(std::vector<std::string>& list) {
  std::vector<char*> p;
  for (std::string& s : list) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

// What the kernel answers with EINVAL (copy_process): flags that exclude each other, or need each other.
bool conflict(uint64_t flags) {
  auto all = [&](uint64_t f) { return (flags & f) == f; };
  return all(CLONE_NEWNS | CLONE_FS) || all(CLONE_NEWUSER | CLONE_FS) || all(CLONE_PIDFD | CLONE_DETACHED) ||
         all(CLONE_PIDFD | CLONE_PARENT_SETTID) ||  // in the same place
         ((flags & CLONE_THREAD) && (!(flags & CLONE_SIGHAND) || (flags & (CLONE_NEWUSER | CLONE_NEWPID)))) ||
         ((flags & CLONE_SIGHAND) && !(flags & CLONE_VM));
}

bool set_close_on_exec(int fd, bool on) {
  return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) == 0;
}

}  // namespace

// --- fork ---

int64_t Recorder::do_fork(uint64_t nr, const uint64_t args[6]) {
  const Syscall& row = syscall_row(nr);
  Context& ctx = context();
  const uint64_t flags = nr == SYS_clone   ? args[0]
                         : nr == SYS_vfork ? CLONE_VFORK | CLONE_VM | SIGCHLD
                                           : SIGCHLD;
  if (conflict(flags) || ((flags & CLONE_THREAD) && pids_unshared_) ||
      ((flags & CLONE_PARENT) && getpid() == 1)) {
    log_call(row, nr, args, -EINVAL, false);
    return -EINVAL;
  }
  if (flags & CLONE_THREAD || is_lodger(flags)) return do_clone(args);
  if ((flags & (CLONE_VM | CLONE_VFORK)) == (CLONE_VM | CLONE_VFORK)) return do_vfork(nr, args, flags);
  const bool follow = !options_.follow.empty() && !detached_ && log_.active();
  if (!follow) note_once("the program started child processes, which were not recorded");
  const uint64_t number = follow ? tree_.next_number() : 0;
  bs_record.given = next_order();  // the first that there is, perhaps
  const uint64_t stack = nr == SYS_clone ? args[1] : 0;
  // CLONE_SETTLS is ours to do: the kernel's FS base is the host's at the moment.
  const uint64_t real = flags & ~static_cast<uint64_t>(CLONE_SETTLS);
  share_with_child(flags & CLONE_NEWPID || pids_unshared_ || is_foreign());
  if (!(flags & CLONE_FILES)) listen_for_child();
  files_shared_ |= (flags & CLONE_FILES) != 0;
  const uint64_t event = log_.appender().events;  // behind the notes of these two
  const std::string name = thread_name();
  copy_live_for_child();
  hold_signals();
  const int64_t result =
      hot::syscall6(SYS_clone, static_cast<long>(real), 0, nr == SYS_clone ? static_cast<long>(args[2]) : 0,
                    nr == SYS_clone ? static_cast<long>(args[3]) : 0, 0, 0);
  if (result == 0) {
    if (!name.empty()) prctl(PR_SET_NAME, name.c_str());
    become_child(number, event, flags & CLONE_FILES);
    set_real_mask();
    log_call(row, nr, args, 0, false);
    use_live_as_child();
    leave_behind();
    if ((flags & CLONE_CHILD_SETTID) && nr == SYS_clone) log_memory(args[3], 4);
    if (stack) ctx.gpr[RSP] = stack;
    if (flags & CLONE_CHILD_CLEARTID) process_.current().clear_child_tid = args[3];
    if (flags & CLONE_SETTLS) ctx.fs_base = args[4];
    return 0;
  }
  forget_child();
  forget_child_live(result >= 0);
  if (result < 0)
    for (auto& [key, object] : objects_) object->no_child();
  set_real_mask();
  log_call(row, nr, args, result, true);
  return result;
}

// What a process or a thread made by the current one is called; empty: as the kernel thread that makes it,
// anyway.
std::string Recorder::thread_name() {
  const Task& task = turns_.current();
  if (!bs_record.threads || vfork_ || !task.body || process_.current().tid == bs_wakeups.runner) return "";
  std::string name;
  std::ifstream in(fmt::format("/proc/self/task/{}/comm", process_.current().tid));
  std::getline(in, name);
  return name;
}

// Around fork and vfork signals stay in the kernel, until it is settled whose books they go into: those of
// the parent are not the child's, and a child may be sent one before it has any.
void Recorder::hold_signals() {
  uint64_t mask = ~0ull;
  for (int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) mask &= ~(1ull << (signo - 1));
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, 8);
}

// In the child: from here on everything goes into a log of its own. number 0: it is not recorded.
void Recorder::become_child(uint64_t number, uint64_t parent_event, bool shares_files) {
  end_threads();
  constexpr uint8_t kNoInherit = 2;  // PR_MDWE_NO_INHERIT
  if (mdwe_ & kNoInherit) mdwe_ = 0;
  log_.abandon(shares_files);
  shares_files_ |= shares_files;
  files_shared_ = shares_files;
  leader_ = traced_ = false;
  HotState& s = bs_record;
  s.our_fds[kLogFd] = -1;
  s.pending_count = 0;
  s.me = static_cast<uint64_t>(getpid()) << 32 | number;
  s.given = 0;
  origin_ = {number, Birth::Fork, origin_.process, parent_event, static_cast<uint64_t>(getpid())};
  forks_++, event_base_ += parent_event;
  detached_ = number == 0;
  if (!detached_) {
    RoomForFds room;
    try {
      log_.open(recording_.log_path(number), origin_);
      s.our_fds[kLogFd] = log_.fd();
      room.give_back();
      watch_descriptors();
    } catch (const Error&) {
      detached_ = true;  // no space, no rights; its parent's log says that it was started
    }
  }
  // The parent of the first process of a pid namespace is not in it.
  if (getppid() == 0) live_in_foreign_namespace();
  if (getpid() == 1) set_real_actions();
  pids_unshared_ = false;
  for (auto& [key, object] : objects_) {
    object->become_child();
    if (is_foreign() && !object->is_open()) open_to_foreigners(*object);
    if (object->has_view()) open_object(*object);  // the one that it has is its parent's
  }
  requests_.clear();
  fresh_.clear();
  listen_as_child(shares_files);
  if (s.sharing) start_threads();
  // A child of vfork may fork: that is a process like any other, with memory of its own.
  vfork_ = s.no_leave = false;
  vfork_end_.reset();
  manifest_.end.reset();
  manifest_.start_now();
  manifest_.notes.clear();
  manifest_.checkpoints_note.clear();
  notes_.clear();
  if (options_.check_deep) s.next_checksum = 0;
  published_.become_child();
  s.letters = published_.letters_flag();
  hang_bells();
  start_checkpoints();
  if (s.segments) look_regularly();
}

// --- vfork ---

struct Recorder::VforkState {
  KernelSigaction actions[kSignals + 1];
  uint8_t fd_kind[kTrackedFds];
  int our_fds[kOurFds];
  siginfo_t pending[kPendingSignals];
  unsigned pending_count;
  uint64_t fatal_mask, ignored_mask;
  Limits limits;
  bool threads;
  std::vector<siginfo_t> signals;
  Thread* parent;
  int stderr_fd;
  std::optional<recording::Recording> recording;  // the way there
  std::optional<recording::Store> store;
  bool traced;
  bool nested;  // the parent is itself a child of vfork
};

// The child's life, on a stack of its own: the parent waits in the kernel, somewhere in do_vfork.
void Recorder::live_as_vfork_child(void* recorder) {
  auto& self = *static_cast<Recorder*>(recorder);
  self.process_.current().tid = gettid();
  self.published_.vforked(self.vfork_depth_ - 1, getpid());
  if (getpid() == 1) self.set_real_actions();
  if (!self.vfork_name_.empty()) prctl(PR_SET_NAME, self.vfork_name_.c_str());
  for (const uint64_t id : self.vfork_ids_)
    if (id) self.log_memory(id, 4);
  self.set_real_mask();
  for (;;) {
    const engine::Stop stop = self.process_.engine().run();
    self.look_after_guest(stop);
    self.react(stop);
    if (!self.process_.engine().is_half_done()) self.serve_letters(false);
    self.before_guest();
  }
}

int64_t Recorder::do_vfork(uint64_t nr, const uint64_t args[6], uint64_t flags) {
  const Syscall& row = syscall_row(nr);
  Context& ctx = context();
  HotState& s = bs_record;
  constexpr size_t kStack = 1 << 20;
  // The child's child needs another one: its parent waits on the first.
  if (vfork_stacks_.size() == vfork_depth_) {
    void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) {
      log_call(row, nr, args, -ENOMEM, false);
      return -ENOMEM;
    }
    vfork_stacks_.push_back(static_cast<char*>(stack) + kStack);
  }
  // Where the kernel writes, in memory that both have.
  uint64_t dropped = 0, cleared = 0;
  vfork_ids_ = {};
  auto id_at = [&](uint64_t address, uint64_t flag) -> uint64_t {
    if (nr != SYS_clone || !(flags & flag)) return 0;
    if (process_.writable(address, 4)) return address;
    dropped |= flag & ~static_cast<uint64_t>(CLONE_PIDFD);
    return 0;
  };
  vfork_ids_ = {id_at(args[2], CLONE_PARENT_SETTID | CLONE_PIDFD), id_at(args[3], CLONE_CHILD_SETTID)};
  cleared = id_at(args[3], CLONE_CHILD_CLEARTID);
  vfork_name_ = thread_name();
  hold_signals();
  auto before = std::make_unique<VforkState>();
  std::copy(std::begin(process_.actions), std::end(process_.actions), before->actions);
  std::copy(std::begin(s.fd_kind), std::end(s.fd_kind), before->fd_kind);
  std::copy(std::begin(s.our_fds), std::end(s.our_fds), before->our_fds);
  std::copy(s.pending, s.pending + s.pending_count, before->pending);
  before->pending_count = s.pending_count;
  before->fatal_mask = s.fatal_mask;
  before->ignored_mask = s.ignored_mask;
  before->limits = process_.limits;
  before->threads = s.threads;
  before->parent = &process_.current();
  before->stderr_fd = stderr_;
  before->recording = recording_;
  before->store = store_;
  before->traced = traced_;
  traced_ = false;
  before->signals.swap(turns_.current().signals);
  s.pending_count = 0;
  s.threads = false;

  const uint64_t stack = nr == SYS_clone ? args[1] : 0;
  Thread& child = process_.start_thread(nr == SYS_clone ? flags : 0, stack, nr == SYS_clone ? args[4] : 0, 0);
  log_turn(TurnReason::Vforked, 0, ctx.rip - 2, child.name);
  before->parent->in_call = true;
  process_.turn_to(child);
  before->nested = vfork_;
  vfork_ = s.no_leave = true;
  vfork_end_ = {};
  vfork_depth_++;
  constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  constexpr uint64_t kKept = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_IO |
                             CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID |
                             CLONE_PIDFD | kNamespaces | 0xff;
  const int64_t result = bs_start_thread(flags & kKept & ~dropped, vfork_stacks_[vfork_depth_ - 1],
                                         reinterpret_cast<int*>(args[2]),
                                         reinterpret_cast<uint32_t*>(args[3]), live_as_vfork_child, this);

  // The child has ended or become another program (or the kernel made none).
  published_.vforked(--vfork_depth_, 0);
  vfork_ = s.no_leave = before->nested;
  if (result > 0 && !vfork_end_) log_.stop("a child of vfork was killed in the middle of its work");
  if (result < 0) vfork_end_ = VforkEnd{recording::kAsynchronous, ctx.rip};
  if (vfork_end_) log_turn(TurnReason::Ended, vfork_end_->flags, vfork_end_->pc, before->parent->name);
  vfork_end_ = {};
  std::copy(std::begin(before->actions), std::end(before->actions), process_.actions);
  std::copy(std::begin(before->fd_kind), std::end(before->fd_kind), s.fd_kind);
  const int folder = folder_fd();
  std::copy(std::begin(before->our_fds), std::end(before->our_fds), s.our_fds);
  std::copy(before->pending, before->pending + before->pending_count, s.pending);
  s.pending_count = before->pending_count;
  s.fatal_mask = before->fatal_mask;
  s.ignored_mask = before->ignored_mask;
  process_.limits = before->limits;
  s.threads = before->threads;
  store_ = *before->store;
  if (folder != folder_fd()) {  // the child has opened it; in a table of its own?
    if (flags & CLONE_FILES)
      use_folder(folder);
    else
      recording_ = *before->recording;
    tell_fds();
  }
  watch_descriptors();
  stderr_ = before->stderr_fd;
  traced_ = before->traced;
  process_.turn_to(*before->parent);
  process_.end_thread(child);
  before->parent->in_call = false;
  turns_.current().signals.swap(before->signals);
  set_real_mask();
  log_call(row, nr, args, result, false);
  if (result > 0 && cleared) log_memory(cleared, 4);
  return result;
}

void Recorder::log_turn(TurnReason reason, uint8_t flags, Address pc, int next) {
  log_.reserve(4096);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  Context& ctx = context();
  // A call that waits, or whose child runs now, has given already.
  recording::Order order;
  if (reason == TurnReason::Blocked || reason == TurnReason::Vforked)
    order.given = std::exchange(bs_record.given, 0);
  uint8_t* at = log.begin(EventKind::Turn, flags, static_cast<uint16_t>(reason), order);
  at = log.put_place(at, ctx.tick, pc);
  at = recording::put_u32(at, register_digest(ctx));
  at = recording::put_varint(at, static_cast<uint64_t>(next));
  log.commit(at);
}

// --- execve ---

bool Recorder::follows(const std::string& path) const {
  if (options_.follow == "*") return true;
  if (options_.follow.empty()) return leader_ && !vfork_;
  return fnmatch(options_.follow.c_str(), path.c_str(), 0) == 0 ||
         fnmatch(options_.follow.c_str(), std::filesystem::path(path).filename().c_str(), 0) == 0;
}

int64_t Recorder::do_exec(uint64_t nr, const uint64_t args[6]) {
  const Syscall& row = syscall_row(nr);
  const int shift = nr == SYS_execve ? 0 : 1;
  auto logged = [&](int64_t result) {
    log_call(row, nr, args, result);
    return result;
  };
  auto path = guest_text(args[shift]);
  if (!path) return logged(-EFAULT);
  if (path->size() >= 4096) return logged(-ENAMETOOLONG);
  Succession next;
  next.options = options_;
  next.options.command.clear();
  int64_t bad_list = guest_list(args[shift + 1], next.options.command);
  if (!bad_list) bad_list = guest_list(args[shift + 2], next.env);
  if (next.options.command.empty()) next.options.command.emplace_back();

  RoomForFds room;
  // The file, whatever way it is named.
  int kept_fd = -1;
  if (nr == SYS_execveat) {
    const auto dirfd = static_cast<int>(args[0]);
    const uint64_t flags = args[4];
    if (flags & ~static_cast<uint64_t>(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) return logged(-EINVAL);
    if (path->empty()) {
      if (!(flags & AT_EMPTY_PATH)) return logged(-ENOENT);
      kept_fd = dirfd == AT_FDCWD ? -1 : dup(dirfd);
      if (kept_fd < 0) return logged(-EBADF);
      kept_fd = recording::move_fd_high(kept_fd);
      *path = fmt::format("/proc/{}/fd/{}", bs_wakeups.moved ? "thread-self" : "self", kept_fd);
    } else if (!path->starts_with('/') && dirfd != AT_FDCWD) {
      char folder[4096];
      ssize_t n = readlink(fmt::format("/proc/thread-self/fd/{}", dirfd).c_str(), folder, sizeof folder);
      if (n < 0) return logged(-EBADF);
      *path = std::string(folder, static_cast<size_t>(n)) + "/" + *path;
    }
  }
  if (path->empty()) return logged(-ENOENT);
  next.name = std::filesystem::path(*path).filename();
  if (auto exe = exe_behind(*path)) *path = *exe;
  next.path = *path;
  next.program_fd = kept_fd;
  auto fail = [&](int64_t err) {
    if (kept_fd >= 0) ::close(kept_fd);
    return logged(err);
  };
  if (bad_list) {  // the kernel looks for the file first
    const int64_t no_file = why_not_executable(*path);
    return fail(no_file ? no_file : bad_list);
  }
  StartOptions wanted;
  wanted.path = *path;
  wanted.argv = next.options.command;
  wanted.env = next.env;
  wanted.stack_size = process_.limits.stack.soft;
  const bool traced = vfork_ && traced_;
  const bool wanted_here = !traced && !detached_ && log_.active() && follows(*path);
  wanted.ask_kernel = wanted_here;
  bool no_room = false;  // for descriptors of ours; the kernel needs none
  try {
    check_program(wanted);
  } catch (const LoadError& e) {
    no_room = e.err == EMFILE || e.err == ENFILE;
    if (!no_room) return fail(-e.err);
  }

  const bool follow = !no_room && wanted_here && can_succeed();
  std::vector<std::string> environment = next.env;
  int message = -1;
  std::string program = *path;
  if (follow) {
    next.library = library_.dir();
    next.recording = recording_.dir();
    next.leader = leader_ && !vfork_;
    next.foreign = is_foreign() || (vfork_ && getppid() == 0);
    next.started_ns = started_ns_;
    next.origin = {tree_.next_number(), Birth::Exec, origin_.process, log_.appender().events,
                   static_cast<uint64_t>(getpid())};
    for (int signo = 1; signo <= kSignals; signo++)
      if (process_.actions[signo].handler == 1) next.ignored |= 1ull << (signo - 1);
    next.blocked = process_.signals.mask;
    next.mdwe = mdwe_ == 1 ? 1 : 0;  // unless it is not to be inherited
    next.tsc_trapped = process_.current().trapped & Thread::kTrapTsc;
    next.limits = process_.limits;
    next.filters = save_filters(process_.current().filters);
    next.stderr_fd = stderr_;
    next.folder_fd = folder_fd();
    next.root = root_;
    for (uint64_t fd = 0; fd < kTrackedFds; fd++)
      if (uint8_t kind = bs_record.fd_kind[fd] & 3;
          kind && !(fcntl(static_cast<int>(fd), F_GETFD) & FD_CLOEXEC))
        next.fd_kinds.emplace_back(fd, kind);
    message = next.save();
    if (message < 0) return fail(-ENOMEM);
    message = recording::move_fd_high(message);
    set_close_on_exec(message, false);
    if (kept_fd >= 0) set_close_on_exec(kept_fd, false);
    environment = {fmt::format("{}={}", kSuccessionVariable, message)};
    program = "/proc/self/exe";
  } else {
    note_once(fmt::format("the program {} {} (execve), which was not recorded", vfork_ ? "started" : "became",
                          *path));
    hand_out_inherited();
  }
  if (stderr_ >= 0 && follow) set_close_on_exec(stderr_, false);
  if (folder_fd() >= 0 && follow) set_close_on_exec(folder_fd(), false);

  room.give_back();
  // If the kernel takes it we do not come back, so the end is written first and taken back on failure. The
  // child of a vfork has no end to write: its parent goes on with this log.
  recording::Appender before = log_.appender();
  const bool mark = log_.active() && !detached_ && !vfork_;
  if (mark && !before.has_room(256)) {
    log_.reserve(4096);
    before = log_.appender();
  }
  const uint64_t state = before.chunk ? before.chunk->state : 0;
  if (vfork_) vfork_end_ = VforkEnd{0, context().rip - 2};
  if (mark && log_.active()) {
    recording::Appender& log = log_.appender();
    const auto status = static_cast<int64_t>(next.origin.process);
    uint8_t* at = log.begin(EventKind::End, 0, 0, {next_order(), 0});
    at = log.put_place(at, context().tick, context().rip - 2);
    *at++ = static_cast<uint8_t>(EndKind::Exec);
    at = recording::put_varint(at, recording::zigzag(follow ? status : 0));
    log.commit(at);
    manifest_.end_now(EndKind::Exec, follow ? status : 0, context().tick, log.events);
    // The logs of most forked children end here at once, and say so themselves.
    if (leader_ || origin_.birth != Birth::Fork) save_manifest();
  }
  if (!vfork_) {
    kill_lodgers();
    for (auto& [key, object] : objects_) object->leave();
    stop_listening();
    process_.engine().save_translations();
  }
  // Those who look at us now wait until the new program has told about itself, or see it natively.
  if (vfork_) {
    published_.vforked(vfork_depth_ - 1, 0);
  } else if (follow) {
    published_.set_state(PublishedHead::Loading);
  } else {
    published_.end();
  }
  quiet_bodies();
  uint64_t mask = process_.signals.mask;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, 8);
  auto argv = pointers(next.options.command), envp = pointers(environment);
  if (traced) ptrace(PTRACE_TRACEME, 0, 0, 0);
  if (!follow) {
    hand_to_kernel(process_.limits);
    hand_to_kernel(process_.current().filters);
  }
  // What bodies have got would be forgotten with them: so it comes first, and the call is made again.
  const long result = has_passed() ? kNotMade
                                   : hot::syscall6(SYS_execve, reinterpret_cast<long>(program.c_str()),
                                                   reinterpret_cast<long>(argv.data()),
                                                   reinterpret_cast<long>(envp.data()), 0, 0, 0);
  // The kernel refused.
  rouse_bodies();
  if (!follow) try_to_make_room_for_memory();
  if (vfork_) {
    published_.vforked(vfork_depth_ - 1, getpid());
  } else if (follow) {
    published_.set_state(PublishedHead::Ready);
  } else {
    published_.become_child();
    bs_record.letters = published_.letters_flag();
  }
  if (!vfork_) {
    for (auto& [key, object] : objects_) object->return_to();
    listen_again();
  }
  if (!objects_.empty()) start_sharing();
  check_shared(0, ~0ull);
  set_real_mask();
  vfork_end_ = {};
  if (stderr_ >= 0) set_close_on_exec(stderr_, true);
  if (folder_fd() >= 0) set_close_on_exec(folder_fd(), true);
  if (message >= 0) ::close(message);
  if (mark && log_.active()) {
    log_.appender() = before;
    before.chunk->state = state;
    manifest_.end.reset();
  }
  return fail(result);
}

recording::Recording recording_of(const Succession& s) {
  recording::Recording recording(s.recording);
  if (s.folder_fd >= 0) recording.reach_by(recording::path_of_fd(s.folder_fd));
  return recording;
}

// The new program cannot be recorded after all: no space, no right to read it (execve needs less). The
// program has been promised that its execve succeeds: it runs, only unrecorded.
void run_unrecorded(Succession& s, const std::string& why) {
  if (s.leader && !s.options.quiet)
    fmt::print(stderr, "backstep: {} runs unrecorded from here on: {}\n", s.path, why);
  if (s.stderr_fd >= 0) set_close_on_exec(s.stderr_fd, true);
  if (s.folder_fd >= 0) set_close_on_exec(s.folder_fd, true);
  if (s.program_fd >= 0) set_close_on_exec(s.program_fd, true);
  for (int signo = 1; signo <= kSignals; signo++)
    if (s.ignored >> (signo - 1) & 1) std::signal(signo, SIG_IGN);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &s.blocked, nullptr, 8);
  unpublish(recording_of(s).base());
  auto argv = pointers(s.options.command), envp = pointers(s.env);
  hand_to_kernel(s.limits);
  hand_to_kernel(load_filters(s.filters));
  ::execve(s.path.c_str(), argv.data(), envp.data());
  _exit(126);
}

}  // namespace backstep::recorder

namespace backstep {

bool is_succession() {
  return getenv(recorder::kSuccessionVariable) != nullptr;
}

int succeed() {
  const char* message = getenv(recorder::kSuccessionVariable);
  const int fd = message ? std::atoi(message) : -1;
  recorder::Succession s = recorder::Succession::load(fd);
  recorder::Recorder* recorder = nullptr;
  try {
    RoomForFds room;
    recording::Library library(s.library);
    recorder = new recorder::Recorder(s, library, recorder::recording_of(s));
    recorder->load();
  } catch (const std::exception& e) {
    // A log without a program is of no use to anybody.
    if (recorder) recording::remove_file(recorder::recording_of(s).log_path(s.origin.process));
    recorder::run_unrecorded(s, e.what());
  }
  recorder->run();
}

}  // namespace backstep
