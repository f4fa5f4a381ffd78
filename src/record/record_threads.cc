// Threads of the recorded program.
//
// All guest threads run on one kernel thread, the runner, one at a time. The turn passes
//   * when a thread waits: futexes and sleeps are kept by ourselves (turns.h), other calls are made by the
//     thread's body on copies of its buffers, and finished here when the thread gets the turn back;
//   * when a thread has had its slice and others are ready: a timer signal stops the guest at an instruction
//     boundary, whose control point is exact;
//   * at sched_yield and when a thread ends.
// Each turn is one event in the log. A call that waited is logged when it is finished, with the turn, so that
// the log is in the order in which guest memory changed. Nothing writes guest memory but the thread that has
// the turn and, for it, we.
//
// Passing a turn costs a few hundred nanoseconds (no kernel, no context switch), so contended locks are
// cheap.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "guest/buffers.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EndKind;
using recording::EventKind;
using recording::TurnReason;

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSlice = 2'000'000;  // ns that a thread may keep the turn while others want it

long raw(uint64_t nr, const uint64_t a[6]) {
  return hot::syscall6(static_cast<long>(nr), static_cast<long>(a[0]), static_cast<long>(a[1]),
                       static_cast<long>(a[2]), static_cast<long>(a[3]), static_cast<long>(a[4]),
                       static_cast<long>(a[5]));
}

struct Timespec {
  int64_t seconds, nanoseconds;
  bool valid() const { return seconds >= 0 && nanoseconds >= 0 && nanoseconds < kSecond; }
  int64_t ns() const { return seconds > INT64_MAX / kSecond - 1 ? kNever : seconds * kSecond + nanoseconds; }
};

int64_t add(int64_t a, int64_t b) {
  return b > kNever - a ? kNever : a + b;
}

int64_t clock_ns(int clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

// A point in time of another clock, on the monotonic one.
int64_t deadline_of(const Timespec& time, int clock, bool absolute) {
  const int64_t now = monotonic_ns();
  if (!absolute) return add(now, time.ns());
  if (clock == CLOCK_MONOTONIC) return time.ns();
  const int64_t left = time.ns() == kNever ? kNever : time.ns() - clock_ns(clock);
  return left <= 0 ? now : add(now, left);
}

bool is_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 || (flags & O_NONBLOCK);
}

bool is_ready(int fd, short events) {
  pollfd p{fd, events, 0};
  return poll(&p, 1, 0) != 0;
}

// Regular files and directories do not block; that is remembered until the descriptor is closed.
bool is_file(uint64_t fd) {
  if (fd < kTrackedFds && (bs_record.fd_kind[fd] & kFdFile)) return true;
  struct stat st {};
  if (fstat(static_cast<int>(fd), &st) != 0) return true;  // the call will say what is wrong
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return false;
  if (fd < kTrackedFds) bs_record.fd_kind[fd] |= kFdFile;
  return true;
}

void drop_waiting_mask(uint64_t nr, uint64_t args[6]) {
  switch (nr) {
    case SYS_ppoll:
      args[3] = 0;
      break;
    case SYS_pselect6:
      args[5] = 0;
      break;
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      args[4] = 0;
      break;
    default:
      break;
  }
}

}  // namespace

// --- turns ---

void Recorder::start_threads() {
  if (bs_record.threads) return;
  bs_record.threads = true;
  bs_wakeups.pid = getpid();
  bs_wakeups.runner = gettid();
  turns_.current().thread = &process_.current();
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGTRAP;
  event.sigev_value.sival_ptr = reinterpret_cast<void*>(kTurnSignal);
  event._sigev_un._tid = gettid();
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer_) != 0)
    throw Error("cannot make a timer for thread switches: " + errno_text(errno));
  armed_ = 0;
  if (chaos_.on()) {
    process_.engine().set_check(true);
    context().limit = context().tick + chaos_.budget();
  }
}

void Recorder::end_threads() {
  process_.keep_only_current();
  process_.current().tid = gettid();
  turns_.keep_only_current();
  thread_timers_.clear();
  bs_record.threads = false;
  bs_record.turn_request = false;
  timer_ = -1;
  armed_ = 0;
}

// A timer is needed while others want the turn, and for the next deadline.
void Recorder::arm_timer() {
  int64_t wanted = turns_.next_deadline();
  const int64_t now = monotonic_ns();
  if (turns_.anyone_ready()) wanted = std::min(wanted, now + kSlice);
  if (wanted == kNever || (armed_ > now && armed_ <= wanted)) return;
  armed_ = std::max(wanted, now + 1);
  itimerspec spec{{0, 0}, {armed_ / kSecond, armed_ % kSecond}};
  syscall(SYS_timer_settime, timer_, TIMER_ABSTIME, &spec, nullptr);
}

// Whose turn it is: first come, first served; in chaos mode anybody's, and some are held back for a while.
std::optional<size_t> Recorder::choose_next(int64_t& until) {
  if (!chaos_.on()) return 0;
  const int64_t now = monotonic_ns();
  constexpr uint64_t kDelay = 5'000'000;
  std::vector<size_t> fit;
  for (size_t i = 0; i < turns_.ready().size(); i++) {
    Task& task = *turns_.ready()[i];
    if (task.delayed_until == 0)
      task.delayed_until = chaos_.one_in(8) ? now + static_cast<int64_t>(chaos_.below(kDelay)) : now;
    if (task.delayed_until <= now) fit.push_back(i);
    until = std::min(until, task.delayed_until);
  }
  if (fit.empty()) return std::nullopt;  // all are late: then nothing happens for a while
  return fit[chaos_.below(fit.size())];
}

// Streams may give and take less than asked for; pipes take up to PIPE_BUF bytes at once, though.
uint64_t Recorder::fewer(uint64_t nr, const uint64_t args[6]) {
  if (!chaos_.on() || args[2] < 2 ||
      !(nr == SYS_read || nr == SYS_write || nr == SYS_recvfrom || nr == SYS_sendto) || !chaos_.one_in(4))
    return args[2];
  const bool writes = nr == SYS_write || nr == SYS_sendto;
  if (writes && args[2] <= PIPE_BUF) return args[2];
  struct stat st {};
  if (fstat(static_cast<int>(args[0]), &st) != 0) return args[2];
  if (S_ISSOCK(st.st_mode)) {
    int type = 0;
    socklen_t size = sizeof type;
    const uint64_t flags = nr == SYS_recvfrom || nr == SYS_sendto ? args[3] : 0;
    if (getsockopt(static_cast<int>(args[0]), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_STREAM || (flags & (MSG_WAITALL | MSG_PEEK | MSG_TRUNC)))
      return args[2];
  } else if (!S_ISFIFO(st.st_mode) || (fcntl(static_cast<int>(args[0]), F_GETFL) & O_DIRECT)) {
    return args[2];
  }
  return writes ? PIPE_BUF + chaos_.below(args[2] - PIPE_BUF) : 1 + chaos_.below(args[2] - 1);
}

// A program with a handler that does not restart calls must expect EINTR from each that waits.
bool Recorder::may_be_interrupted() const {
  constexpr uint64_t kRestart = 0x1000'0000;
  return std::any_of(std::begin(process_.actions), std::end(process_.actions),
                     [](const KernelSigaction& a) { return a.handler > 1 && !(a.flags & kRestart); });
}

// The current thread cannot go on, or should not. The next one that is ready gets the turn; that may be the
// same one again, if its wait is over before anybody else is ready.
void Recorder::pass_turn(TurnReason reason) {
  Task& from = turns_.current();
  Context& ctx = context();
  turns_.collect();
  route_signals();
  std::optional<size_t> choice;
  int64_t until = kNever;
  while (!turns_.anyone_ready() || !(choice = choose_next(until))) {
    turns_.idle(until);
    until = kNever;
    serve_shared();
    bs_record.turn_request = false;
    turns_.collect();
    route_signals();
  }
  Task& next = turns_.take_ready(*choice);
  next.delayed_until = 0;
  if (chaos_.on()) ctx.limit = ctx.tick + 1 + chaos_.budget();
  if (&next != &from) {
    const bool preempted = reason == TurnReason::Preempted;
    log_turn(reason, preempted ? recording::kAsynchronous : 0, preempted ? ctx.rip : ctx.rip - 2,
             next.thread->name);
    process_.turn_to(*next.thread);
    turns_.set_current(next, monotonic_ns());
    if (reason == TurnReason::Ended) {
      Thread& ended = *from.thread;
      turns_.remove(from);
      process_.end_thread(ended);
      set_real_mask();
    }
  }
  arm_timer();
  if (next.thread->in_call) {
    finish_call(next);
  } else {
    deliver_pending(0, 0);
  }
}

// Somebody asked for a look: a slice is over, a body is done, a deadline has passed.
void Recorder::preempt() {
  bs_record.turn_request = false;
  turns_.collect();
  route_signals();
  const int64_t now = monotonic_ns();
  if (armed_ <= now) armed_ = 0;
  const bool due = yielded_ || now - turns_.turn_started() >= kSlice / 2;
  yielded_ = false;
  if (turns_.anyone_ready() && due) {
    turns_.make_ready(turns_.current());
    pass_turn(TurnReason::Preempted);
  } else {
    arm_timer();
  }
}

Recorder::Begun Recorder::blocked(uint64_t nr, const uint64_t args[6]) {
  Task& task = turns_.current();
  task.nr = nr;
  std::copy(args, args + 6, task.args);
  task.thread->in_call = true;
  pass_turn(TurnReason::Blocked);
  return Begun::Blocked;
}

// The thread has the turn again and its call has a result.
void Recorder::finish_call(Task& task) {
  const Syscall& row = syscall_row(task.nr);
  const uint64_t nr = task.nr;
  uint64_t args[6];
  std::copy(task.args, task.args + 6, args);
  int64_t result = task.result;
  // Replay reads the mask here, so that is the one that counts (another thread may have changed it).
  if (process_.signals.restore_mask)
    if (auto mask = waiting_mask(nr, args)) process_.set_mask(*mask);
  task.thread->in_call = false;
  if (nr == SYS_rt_sigtimedwait && result == -EINTR) {
    uint64_t set = 0;
    read_guest(args[0], &set);
    if (auto found = task.take_signal(set)) {
      result = found->si_signo;
      task.scratched = false;
      if (args[1] && process_.writable(args[1], 128))
        std::memcpy(reinterpret_cast<void*>(args[1]), &*found, 128);
    }
  }
  if (bs_record.sharing) own_arguments(row, nr, args);
  if (task.scratched) {
    task.scratch.give_back(row, nr, result, task.counts, process_);
    task.scratch.clear();
    task.scratched = false;
  }
  if ((nr == SYS_nanosleep || nr == SYS_clock_nanosleep) && result == -EINTR) {
    const uint64_t rem = nr == SYS_nanosleep ? args[1] : (args[1] & TIMER_ABSTIME) ? 0 : args[3];
    const int64_t left = std::max<int64_t>(0, task.timeout[0] - monotonic_ns());
    const Timespec ts{left / kSecond, left % kSecond};
    if (rem && process_.writable(rem, sizeof ts)) std::memcpy(reinterpret_cast<void*>(rem), &ts, sizeof ts);
  }
  const uint64_t flags = nr == SYS_sendto || nr == SYS_sendmmsg ? args[3] : nr == SYS_sendmsg ? args[2] : 0;
  if (result == -EPIPE && (row.traits & (kOutput | kMovesBytes)) && !(flags & MSG_NOSIGNAL)) {
    // It went to the body, which blocks it.
    siginfo_t info;
    std::memset(&info, 0, sizeof info);
    info.si_signo = SIGPIPE;
    info.si_code = SI_USER;
    info.si_pid = getpid();
    info.si_uid = getuid();
    send_to(task, info);
  }
  std::copy(task.counts, task.counts + 6, bs_record.old_counts);
  if (result >= 0 && (row.traits & kCreatesFd) && static_cast<uint64_t>(result) < kTrackedFds)
    bs_record.fd_kind[result] = 0;
  log_call(row, nr, args, result);
  if (!shared_.empty() && changes_files(nr)) log_file_change(nr, args, result);
  context().gpr[RAX] = static_cast<uint64_t>(result);
  after_call(nr, args, result);
}

// --- signals ---

bool Recorder::signal_waits(Task& task) {
  const uint64_t mask = &task == &turns_.current() ? process_.signals.mask : task.thread->signals.mask;
  return std::any_of(task.signals.begin(), task.signals.end(),
                     [&](const siginfo_t& i) { return !(mask >> (i.si_signo - 1) & 1); });
}

void Recorder::send_to(Task& task, const siginfo_t& info) {
  constexpr int kFirstRealTime = 32;
  const bool queued = info.si_signo < kFirstRealTime &&
                      std::any_of(task.signals.begin(), task.signals.end(),
                                  [&](const siginfo_t& i) { return i.si_signo == info.si_signo; });
  if (!queued) task.signals.push_back(info);
  bool wanted = signal_waits(task);
  if (task.wait == Task::Wait::Call && task.nr == SYS_rt_sigtimedwait) {
    uint64_t set = 0;
    read_guest(task.args[0], &set);
    wanted |= set >> (info.si_signo - 1) & 1;
  }
  if (!wanted) return;
  if (&task != &turns_.current()) {
    // It gets the turn soon: a signal is urgent.
    yielded_ = true;
    bs_record.turn_request = true;
  }
  if (&task != &turns_.current() || task.thread->in_call) turns_.interrupt(task);
}

// Signals to the process go to a thread that does not block them: the first one if it can be, as in the
// kernel.
void Recorder::route_signals() {
  HotState& s = bs_record;
  if (!s.threads) return;
  while (s.timer_hit_count) {
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    auto hits = std::vector(s.timer_hits, s.timer_hits + s.timer_hit_count);
    s.timer_hit_count = 0;
    sigprocmask(SIG_SETMASK, &old, nullptr);
    for (const auto& hit : hits) {
      if (hit.index >= thread_timers_.size()) continue;
      const ThreadTimer& timer = thread_timers_[hit.index];
      Task* task = turns_.by_tid(timer.tid);
      if (!task) continue;
      // A timer has one signal at a time; what comes on top of it is counted.
      auto waiting = std::find_if(task->signals.begin(), task->signals.end(), [&](const siginfo_t& i) {
        return i.si_code == SI_TIMER && i.si_signo == timer.signo && i.si_timerid == timer.id;
      });
      if (waiting != task->signals.end()) {
        waiting->si_overrun += 1 + hit.overrun;
        continue;
      }
      siginfo_t info;
      std::memset(&info, 0, sizeof info);
      info.si_signo = timer.signo;
      info.si_code = SI_TIMER;
      info.si_timerid = timer.id;
      info.si_overrun = hit.overrun;
      info.si_value.sival_ptr = reinterpret_cast<void*>(timer.value);
      send_to(*task, info);
    }
  }
  bool moved = false;
  for (unsigned i = 0; i < s.pending_count;) {
    const siginfo_t info = s.pending[i];
    const uint64_t bit = 1ull << (info.si_signo - 1);
    auto takes = [&](Task& t) {
      const uint64_t mask = &t == &turns_.current() ? process_.signals.mask : t.thread->signals.mask;
      return !(mask & bit);
    };
    Task* target = turns_.first();
    // The kernel sends it to the thread that writes: the runner, for us.
    const bool own = info.si_signo == SIGPIPE && info.si_code == SI_USER && info.si_pid == getpid();
    if (!target || own || !takes(*target)) target = &turns_.current();
    if (!takes(*target)) {
      target = nullptr;
      for (auto& [name, task] : turns_.tasks())
        if (takes(*task)) {
          target = task.get();
          break;
        }
    }
    if (!target) {
      i++;
      continue;
    }
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    s.pending_count = s.pending_count - 1;
    std::copy(s.pending + i + 1, s.pending + s.pending_count + 1, s.pending + i);
    sigprocmask(SIG_SETMASK, &old, nullptr);
    moved = true;
    const Thread& current = process_.current();
    switch (fate_of(process_.actions[info.si_signo], info.si_signo)) {
      case Fate::Die:
        die(info.si_signo, context().rip - (current.in_call ? 2 : 0), true);
      case Fate::Handle:
        send_to(*target, info);
        break;
      default:
        break;
    }
  }
  if (moved) set_real_mask();
}

// tgkill and its relatives, to a thread of our own. nullopt: not to one.
std::optional<int64_t> Recorder::do_thread_kill(uint64_t nr, const uint64_t args[6]) {
  const int tid = static_cast<int>(nr == SYS_tkill ? args[0] : args[1]);
  const int signo = static_cast<int>(nr == SYS_tkill ? args[1] : args[2]);
  if (nr != SYS_tkill && static_cast<int>(args[0]) != getpid()) return std::nullopt;
  Task* task = turns_.by_tid(tid);
  if (!task) return std::nullopt;
  if (signo < 0 || signo > kSignals) return -EINVAL;
  if (signo == 0) return 0;
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  if (nr == SYS_rt_tgsigqueueinfo) {
    if (!bs_guarded_copy(&info, reinterpret_cast<const void*>(args[3]), sizeof info)) return -EFAULT;
    if (info.si_code >= 0 && tid != process_.current().tid) return -EPERM;
  } else {
    info.si_code = SI_TKILL;
    info.si_pid = getpid();
    info.si_uid = getuid();
  }
  info.si_signo = signo;
  if (signo == SIGKILL) die(SIGKILL, context().rip - 2);
  const Fate fate = fate_of(process_.actions[signo], signo);
  if (fate == Fate::StopProcess || signo == SIGCONT) ::kill(getpid(), signo == SIGCONT ? SIGCONT : signo);
  if (fate == Fate::StopProcess) return 0;
  const uint64_t mask = task == &turns_.current() ? process_.signals.mask : task->thread->signals.mask;
  const bool blocked = mask >> (signo - 1) & 1;
  if (fate == Fate::Ignore && !blocked) return 0;
  send_to(*task, info);
  return 0;
}

std::optional<int64_t> Recorder::do_timer_create(const uint64_t args[6]) {
  sigevent event{};
  if (!args[1] || !read_guest(args[1], &event) || event.sigev_notify != SIGEV_THREAD_ID) return std::nullopt;
  if (!turns_.by_tid(event._sigev_un._tid) || !process_.writable(args[2], 4)) return std::nullopt;
  if (event.sigev_signo < 1 || event.sigev_signo > kSignals) return -EINVAL;
  ThreadTimer timer{event._sigev_un._tid, event.sigev_signo, 0,
                    reinterpret_cast<uint64_t>(event.sigev_value.sival_ptr)};
  event.sigev_signo = SIGTRAP;
  event._sigev_un._tid = bs_wakeups.runner;
  event.sigev_value.sival_ptr = reinterpret_cast<void*>(kTimerSignal + thread_timers_.size());
  long result = syscall(SYS_timer_create, static_cast<int>(args[0]), &event, &timer.id);
  if (result != 0) return -errno;
  std::memcpy(reinterpret_cast<void*>(args[2]), &timer.id, 4);
  thread_timers_.push_back(timer);
  return 0;
}

// A deleted timer's signal does not arrive any more.
void Recorder::forget_timer(int id) {
  route_signals();
  for (ThreadTimer& timer : thread_timers_) {
    if (timer.id != id || timer.tid == 0) continue;
    if (Task* task = turns_.by_tid(timer.tid))
      std::erase_if(task->signals,
                    [&](const siginfo_t& i) { return i.si_code == SI_TIMER && i.si_timerid == id; });
    timer.tid = 0;
  }
}

// --- starting and ending threads ---

bool Recorder::poke(uint64_t addr, uint32_t value) {
  if (!process_.writable(addr, 4)) return false;
  std::memcpy(reinterpret_cast<void*>(addr), &value, 4);
  log_memory(addr, 4, recording::kInCall);
  return true;
}

int64_t Recorder::do_clone(const uint64_t args[6]) {
  const uint64_t flags = args[0];
  const Syscall& row = syscall_row(SYS_clone);
  auto logged = [&](int64_t result) {
    log_call(row, SYS_clone, args, result, false);
    return result;
  };
  constexpr uint64_t kNeeded = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
  if ((flags & kNeeded) != kNeeded) return logged(-EINVAL);
  start_threads();
  auto body = std::make_unique<Body>();
  if (!start_body(*body)) return logged(-EAGAIN);
  Thread& thread = process_.start_thread(flags, args[1], args[4], body->tid);
  const int tid = thread.tid;
  if (flags & CLONE_CHILD_CLEARTID) thread.clear_child_tid = args[3];
  if (flags & CLONE_PARENT_SETTID) poke(args[2], static_cast<uint32_t>(tid));
  if (flags & CLONE_CHILD_SETTID) poke(args[3], static_cast<uint32_t>(tid));
  turns_.add(thread, std::move(body));
  arm_timer();
  return logged(tid);
}

// A lock that a dead thread held (robust_list): marked, and given on.
void Recorder::release_lock(uint64_t addr, int tid, bool pi, bool pending) {
  uint32_t word;
  if (addr % 4 || !read_guest(addr, &word)) return;
  if (pending && !pi && word == 0) {
    wake_futex(addr, 1, ~0u);
    return;
  }
  if ((word & FUTEX_TID_MASK) != static_cast<uint32_t>(tid)) return;
  Task* heir = pi ? turns_.first_waiter(addr) : nullptr;
  if (heir) {
    turns_.finish(*heir, 0);
    poke(addr, static_cast<uint32_t>(heir->thread->tid) | FUTEX_OWNER_DIED |
                   (turns_.waiters(addr) ? FUTEX_WAITERS : 0));
    return;
  }
  poke(addr, (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED);
  if (word & FUTEX_WAITERS) wake_futex(addr, 1, ~0u);
}

void Recorder::leave_robust_list(Thread& thread) {
  struct {
    uint64_t next;
    int64_t offset;
    uint64_t pending;
  } head{};
  constexpr int kMost = 2048;
  if (!thread.robust_list || !read_guest(thread.robust_list, &head)) return;
  auto lock_of = [&](uint64_t entry) { return (entry & ~1ull) + static_cast<uint64_t>(head.offset); };
  uint64_t entry = head.next;
  for (int i = 0; i < kMost && (entry & ~1ull) != thread.robust_list; i++) {
    uint64_t next;
    const bool readable = read_guest(entry & ~1ull, &next);
    if ((entry & ~1ull) != (head.pending & ~1ull)) release_lock(lock_of(entry), thread.tid, entry & 1, false);
    if (!readable) break;
    entry = next;
  }
  if (head.pending) release_lock(lock_of(head.pending), thread.tid, head.pending & 1, true);
}

void Recorder::do_exit_thread(int status) {
  Thread& thread = process_.current();
  leave_robust_list(thread);
  if (thread.clear_child_tid && poke(thread.clear_child_tid, 0)) wake_futex(thread.clear_child_tid, 1, ~0u);
  if (process_.threads().size() == 1)
    finish(EndKind::Exit, status & 0xff,
           context().rip - 2);  // as the kernel since 5.17: the last one's status
  thread.in_call = true;
  pass_turn(TurnReason::Ended);
}

// --- futexes ---

int Recorder::wake_futex(uint64_t addr, int most, uint32_t bitset) {
  const Region* r = process_.map.find(addr);
  int woken = turns_.wake(addr, most, bitset);
  if (r && (r->flags & MAP_SHARED) && woken < most) {
    if (SharedObject* object = shared_object(*r)) addr = object->alias(r->offset + (addr - r->start));
    long more = syscall(SYS_futex, addr, FUTEX_WAKE_BITSET, most - woken, nullptr, nullptr, bitset);
    if (more > 0) woken += static_cast<int>(more);
  }
  return woken;
}

// In memory that other processes may share, the kernel keeps the queue: our bodies wait there like anybody
// else.
Recorder::Begun Recorder::futex_in_kernel(const uint64_t args[6], int64_t& result) {
  const Syscall& row = syscall_row(SYS_futex);
  const auto command = args[1] & FUTEX_CMD_MASK;
  const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
  uint64_t real[6];
  std::copy(args, args + 6, real);
  auto by_alias = [&](uint64_t& addr) {
    const Region* r = process_.map.find(addr);
    if (SharedObject* object = r ? shared_object(*r) : nullptr)
      addr = object->alias(r->offset + (addr - r->start));
  };
  by_alias(real[0]);
  if (command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE || command == FUTEX_WAKE_OP) by_alias(real[4]);
  if (!waits) {
    uint32_t before = 0, after = 0;
    if (command == FUTEX_WAKE_OP) {
      own_range(args[4], 4);
      read_guest(args[4], &before);
    }
    result = raw(SYS_futex, real);
    if (command == FUTEX_WAKE_OP && read_guest(args[4], &after) && before != after)
      log_memory(args[4], 4, recording::kInCall);
    log_call(row, SYS_futex, args, result, false);
    return Begun::Done;
  }
  Task& task = turns_.current();
  if (args[3]) {
    if (!read_guest(args[3], &task.timeout)) {
      log_call(row, SYS_futex, args, result = -EFAULT, false);
      return Begun::Done;
    }
    real[3] = reinterpret_cast<uint64_t>(task.timeout);
  }
  task.scratched = false;
  if (!task.body) {
    task.body = std::make_unique<Body>();
    if (!start_body(*task.body)) throw Error("cannot start a kernel thread");
  }
  begin_call(*task.body, SYS_futex, real);
  turns_.wait(task, Task::Wait::Call, kNever, 0);
  return blocked(SYS_futex, args);
}

void Recorder::lock_pi(uint64_t addr, int64_t deadline, bool try_only, std::optional<int64_t>& result) {
  Thread& me = process_.current();
  uint32_t word;
  if (!read_guest(addr, &word)) {
    result = -EFAULT;
    return;
  }
  const uint32_t owner = word & FUTEX_TID_MASK;
  if (owner == 0 && !turns_.first_waiter(addr)) {
    poke(addr, static_cast<uint32_t>(me.tid) | (word & FUTEX_OWNER_DIED));
    result = 0;
  } else if (owner == static_cast<uint32_t>(me.tid)) {
    result = -EDEADLK;
  } else if (try_only) {
    result = -EWOULDBLOCK;
  } else if (!turns_.by_tid(static_cast<int>(owner))) {
    result = -ESRCH;
  } else {
    if (!(word & FUTEX_WAITERS)) poke(addr, word | FUTEX_WAITERS);
    turns_.wait_futex(turns_.current(), addr, ~0u, deadline);
  }
}

int64_t Recorder::unlock_pi(uint64_t addr) {
  uint32_t word;
  if (!read_guest(addr, &word)) return -EFAULT;
  if ((word & FUTEX_TID_MASK) != static_cast<uint32_t>(process_.current().tid)) return -EPERM;
  Task* heir = turns_.first_waiter(addr);
  if (!heir) {
    poke(addr, 0);
    return 0;
  }
  turns_.finish(*heir, 0);
  poke(addr, static_cast<uint32_t>(heir->thread->tid) | (turns_.waiters(addr) ? FUTEX_WAITERS : 0));
  return 0;
}

Recorder::Begun Recorder::do_futex(const uint64_t args[6], int64_t& result) {
  const uint64_t addr = args[0], addr2 = args[4];
  const auto command = args[1] & FUTEX_CMD_MASK;
  const auto value = static_cast<uint32_t>(args[2]);
  const auto count = static_cast<int>(args[2]), count2 = static_cast<int>(args[3]);
  const int clock = args[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  const Syscall& row = syscall_row(SYS_futex);
  auto done = [&](int64_t r) {
    log_call(row, SYS_futex, args, result = r, false);
    return Begun::Done;
  };
  if (addr % 4) return done(-EINVAL);
  // The kernel knows its own threads as owners of priority-inheriting locks, not ours: those we keep
  // ourselves.
  const bool pi = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2 || command == FUTEX_UNLOCK_PI ||
                  command == FUTEX_TRYLOCK_PI || command == FUTEX_WAIT_REQUEUE_PI ||
                  command == FUTEX_CMP_REQUEUE_PI;
  if (const Region* r = process_.map.find(addr); r && (r->flags & MAP_SHARED)) {
    if (!pi) return futex_in_kernel(args, result);
    note_once("a priority-inheriting lock in shared memory: waiters in other processes are not woken");
  }
  int64_t deadline = kNever;
  const bool timed = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI ||
                     command == FUTEX_LOCK_PI2;
  if (timed && args[3]) {
    Timespec ts;
    if (!read_guest(args[3], &ts)) return done(-EFAULT);
    if (!ts.valid()) return done(-EINVAL);
    deadline = deadline_of(ts, command == FUTEX_LOCK_PI ? CLOCK_REALTIME : clock, command != FUTEX_WAIT);
  }
  uint32_t word = 0;
  switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      const uint32_t bitset = command == FUTEX_WAIT ? ~0u : static_cast<uint32_t>(args[5]);
      if (bitset == 0) return done(-EINVAL);
      if (!read_guest(addr, &word)) return done(-EFAULT);
      if (word != value) return done(-EAGAIN);
      if (signal_waits(turns_.current())) return done(-EINTR);
      if (chaos_.one_in(50)) return done(0);  // nobody may rely on a wake-up having a reason
      turns_.wait_futex(turns_.current(), addr, bitset, deadline);
      return blocked(SYS_futex, args);
    }
    case FUTEX_WAKE:
      return done(wake_futex(addr, std::max(count, 1), ~0u));
    case FUTEX_WAKE_BITSET:
      if (static_cast<uint32_t>(args[5]) == 0) return done(-EINVAL);
      return done(wake_futex(addr, std::max(count, 1), static_cast<uint32_t>(args[5])));
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE: {
      if (count < 0 || count2 < 0 || addr2 % 4) return done(-EINVAL);
      if (command == FUTEX_CMP_REQUEUE) {
        if (!read_guest(addr, &word)) return done(-EFAULT);
        if (word != static_cast<uint32_t>(args[5])) return done(-EAGAIN);
      }
      const int woken = turns_.wake(addr, count, ~0u);
      const int moved = turns_.requeue(addr, addr2, count2);
      return done(woken + moved);
    }
    case FUTEX_WAKE_OP: {
      const auto code = static_cast<uint32_t>(args[5]);
      if (addr2 % 4) return done(-EINVAL);
      if (!read_guest(addr2, &word)) return done(-EFAULT);
      int operand = static_cast<int>(code << 8) >> 20;
      const int compared = static_cast<int>(code << 20) >> 20;
      if (code >> 31) operand = 1 << (operand & 31);
      const auto old = static_cast<int>(word);
      uint32_t fresh;
      switch (code >> 28 & 7) {
        case FUTEX_OP_SET:
          fresh = static_cast<uint32_t>(operand);
          break;
        case FUTEX_OP_ADD:
          fresh = word + static_cast<uint32_t>(operand);
          break;
        case FUTEX_OP_OR:
          fresh = word | static_cast<uint32_t>(operand);
          break;
        case FUTEX_OP_ANDN:
          fresh = word & ~static_cast<uint32_t>(operand);
          break;
        case FUTEX_OP_XOR:
          fresh = word ^ static_cast<uint32_t>(operand);
          break;
        default:
          return done(-ENOSYS);
      }
      bool second = false;
      switch (code >> 24 & 15) {
        case FUTEX_OP_CMP_EQ:
          second = old == compared;
          break;
        case FUTEX_OP_CMP_NE:
          second = old != compared;
          break;
        case FUTEX_OP_CMP_LT:
          second = old < compared;
          break;
        case FUTEX_OP_CMP_LE:
          second = old <= compared;
          break;
        case FUTEX_OP_CMP_GT:
          second = old > compared;
          break;
        case FUTEX_OP_CMP_GE:
          second = old >= compared;
          break;
        default:
          return done(-ENOSYS);
      }
      if (!poke(addr2, fresh)) return done(-EFAULT);
      int woken = wake_futex(addr, std::max(count, 1), ~0u);
      if (second) woken += wake_futex(addr2, std::max(count2, 1), ~0u);
      return done(woken);
    }
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_TRYLOCK_PI: {
      std::optional<int64_t> now;
      lock_pi(addr, deadline, command == FUTEX_TRYLOCK_PI, now);
      return now ? done(*now) : blocked(SYS_futex, args);
    }
    case FUTEX_UNLOCK_PI:
      return done(unlock_pi(addr));
    default:
      return done(-ENOSYS);
  }
}

// --- other calls that wait ---

Recorder::Begun Recorder::do_sleep(uint64_t nr, const uint64_t args[6], int64_t& result) {
  const uint64_t request = nr == SYS_nanosleep ? args[0] : args[2];
  const auto clock = nr == SYS_nanosleep ? CLOCK_MONOTONIC : static_cast<int>(args[0]);
  const bool absolute = nr == SYS_clock_nanosleep && (args[1] & TIMER_ABSTIME);
  Timespec ts;
  auto done = [&](int64_t r) {
    log_call(syscall_row(nr), nr, args, result = r);
    return Begun::Done;
  };
  if (!read_guest(request, &ts)) return done(-EFAULT);
  if (!ts.valid()) return done(-EINVAL);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_TAI)
    return wait_in_kernel(syscall_row(nr), nr, args, result);
  Task& task = turns_.current();
  if (signal_waits(task)) return done(-EINTR);
  const int64_t deadline = deadline_of(ts, clock, absolute);
  task.timeout[0] = deadline;
  std::fill(task.counts, task.counts + 6, 0);
  turns_.wait(task, Task::Wait::Sleep, deadline, 0);
  return blocked(nr, args);
}

Recorder::Begun Recorder::do_pause(uint64_t nr, const uint64_t args[6], int64_t& result) {
  Task& task = turns_.current();
  const Syscall& row = syscall_row(nr);
  auto done = [&](int64_t r) {
    log_call(row, nr, args, result = r, false);
    return Begun::Done;
  };
  if (nr == SYS_rt_sigsuspend) {
    uint64_t mask;
    if (args[1] != 8) return done(-EINVAL);
    if (!read_guest(args[0], &mask)) return done(-EFAULT);
    process_.suspend_mask(mask);
    set_real_mask();
    route_signals();
  }
  if (signal_waits(task)) return done(-EINTR);
  turns_.wait(task, Task::Wait::Signal, kNever, 0);
  return blocked(nr, args);
}

Recorder::Begun Recorder::do_sigtimedwait(const uint64_t args[6], int64_t& result) {
  constexpr uint64_t kNr = SYS_rt_sigtimedwait;
  const Syscall& row = syscall_row(kNr);
  Task& task = turns_.current();
  uint64_t set;
  if (args[3] != 8 || !read_guest(args[0], &set)) return Begun::NotMine;
  if (auto found = task.take_signal(set)) {
    if (args[1] && process_.writable(args[1], 128))
      std::memcpy(reinterpret_cast<void*>(args[1]), &*found, 128);
    result = found->si_signo;
    log_call(row, kNr, args, result);
    return Begun::Done;
  }
  if (!task.scratch.make(row, kNr, args, process_)) return Begun::NotMine;
  Timespec limit{1, 0};
  if (args[2]) read_guest(args[2], &limit);
  const Timespec zero{0, 0};
  uint64_t probe[6];
  std::copy(task.scratch.args(), task.scratch.args() + 6, probe);
  probe[2] = reinterpret_cast<uint64_t>(&zero);
  const int64_t now = raw(kNr, probe);
  if (now != -EAGAIN || (limit.seconds == 0 && limit.nanoseconds == 0)) {
    task.scratch.give_back(row, kNr, now, task.counts, process_);
    log_call(row, kNr, args, result = now);
    return Begun::Done;
  }
  return wait_in_kernel(row, kNr, args, result);
}

// The thread's body makes the call.
Recorder::Begun Recorder::wait_in_kernel(const Syscall& row, uint64_t nr, const uint64_t args[6],
                                         int64_t& result) {
  Task& task = turns_.current();
  if (!task.scratch.make(row, nr, args, process_)) {
    // Pointers to nowhere: the kernel will say so, mostly without waiting.
    do result = execute(row, nr, args);
    while (result == -EINTR && bs_record.pending_count == 0 && !signal_waits(task));
    log_call(row, nr, args, result);
    return Begun::Done;
  }
  if (auto mask = waiting_mask(nr, args)) {
    process_.suspend_mask(*mask);
    set_real_mask();
    drop_waiting_mask(nr, task.scratch.args());
    route_signals();
  }
  task.scratch.args()[2] = args[2] == task.scratch.args()[2] ? fewer(nr, args) : task.scratch.args()[2];
  read_counts(row, nr, args, task.counts);
  task.scratched = true;
  if (!task.body) {
    task.body = std::make_unique<Body>();
    if (!start_body(*task.body)) throw Error("cannot start a kernel thread: " + errno_text(EAGAIN));
  }
  begin_call(*task.body, nr, task.scratch.args());
  turns_.wait(task, Task::Wait::Call, kNever, 0);
  if (signal_waits(task) || (chaos_.one_in(20) && may_be_interrupted())) turns_.interrupt(task);
  return blocked(nr, args);
}

// Calls that can be asked for their answer right now: if there is none, the body waits.
Recorder::Begun Recorder::probed_call(const Syscall& row, uint64_t nr, const uint64_t args[6],
                                      int64_t& result) {
  Task& task = turns_.current();
  if (!task.scratch.make(row, nr, args, process_)) return Begun::NotMine;
  static const uint64_t zero[2] = {0, 0};
  static thread_local uint64_t zero_copy[2];
  std::copy(zero, zero + 2, zero_copy);
  const auto zero_at = reinterpret_cast<uint64_t>(zero_copy);
  uint64_t probe[6];
  std::copy(task.scratch.args(), task.scratch.args() + 6, probe);
  drop_waiting_mask(nr, probe);
  uint64_t time[2] = {1, 0};
  int64_t none = 0;
  bool forever_or_later = true;
  switch (nr) {
    case SYS_poll:
      forever_or_later = static_cast<int>(args[2]) != 0;
      probe[2] = 0;
      break;
    case SYS_ppoll:
      if (args[2]) read_guest(args[2], &time);
      probe[2] = zero_at;
      break;
    case SYS_select:
    case SYS_pselect6:
      if (args[4]) read_guest(args[4], &time);
      probe[4] = zero_at;
      break;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      forever_or_later = static_cast<int>(args[3]) != 0;
      probe[3] = 0;
      break;
    case SYS_epoll_pwait2:
      if (args[3]) read_guest(args[3], &time);
      probe[3] = zero_at;
      break;
    case SYS_wait4:
      forever_or_later = !(args[2] & WNOHANG);
      probe[2] |= WNOHANG;
      break;
    case SYS_flock:
      forever_or_later = !(args[1] & 4 /*LOCK_NB*/);
      probe[1] |= 4;
      none = -EWOULDBLOCK;
      break;
    case SYS_fcntl:
      probe[1] = args[1] == F_SETLKW ? F_SETLK : F_OFD_SETLK;
      none = -EAGAIN;
      break;
    default:
      return Begun::NotMine;
  }
  if (time[0] == 0 && time[1] == 0) forever_or_later = false;
  read_counts(row, nr, args, task.counts);
  int64_t now;
  do now = raw(nr, probe);
  while (now == -EINTR);
  if (now == none && forever_or_later) return wait_in_kernel(row, nr, args, result);
  task.scratch.give_back(row, nr, now, task.counts, process_);
  std::copy(task.counts, task.counts + 6, bs_record.old_counts);
  log_call(row, nr, args, result = now);
  return Begun::Done;
}

Recorder::Begun Recorder::blocking_call(const Syscall& row, uint64_t nr, const uint64_t args[6],
                                        int64_t& result) {
  if (has_unknown_argument(row, context())) return Begun::NotMine;
  for (int i = 0; i < row.argc; i++)
    if (row.args[i].kind == Arg::Fd)
      for (int ours : bs_record.our_fds)
        if (ours >= 0 && static_cast<int>(args[i]) == ours) return Begun::NotMine;
  const auto fd = static_cast<int>(args[0]);
  constexpr uint64_t kSmall = 4096;  // a pipe that polls as writable takes that much
  bool waits = false;
  switch (nr) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_accept:
    case SYS_accept4:
      waits = !is_file(args[0]) && !is_ready(fd, POLLIN) && !is_nonblocking(fd);
      break;
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg: {
      const uint64_t flags = nr == SYS_recvmsg ? args[2] : args[3];
      waits =
          !(flags & MSG_DONTWAIT) && ((flags & MSG_WAITALL) || !is_ready(fd, POLLIN)) && !is_nonblocking(fd);
      break;
    }
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
      waits = !is_file(args[0]) && !(nr == SYS_write && args[2] <= kSmall && is_ready(fd, POLLOUT)) &&
              !is_nonblocking(fd);
      break;
    case SYS_sendto:
      waits =
          !(args[3] & MSG_DONTWAIT) && !(args[2] <= kSmall && is_ready(fd, POLLOUT)) && !is_nonblocking(fd);
      break;
    case SYS_sendmsg:
    case SYS_sendmmsg:
      waits = !((nr == SYS_sendmsg ? args[2] : args[3]) & MSG_DONTWAIT) && !is_nonblocking(fd);
      break;
    case SYS_connect:
    case SYS_msgsnd:
    case SYS_msgrcv:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_tee:
      waits = true;
      break;
    case SYS_waitid:
      waits = !(args[3] & WNOHANG);
      break;
    case SYS_open:
    case SYS_openat: {
      const int at = nr == SYS_open ? 0 : 1;
      const uint64_t flags = args[at + 1];
      struct stat st {};
      if (flags & O_NONBLOCK || (flags & O_ACCMODE) == O_RDWR) return Begun::NotMine;
      waits = fstatat(at ? fd : AT_FDCWD, reinterpret_cast<const char*>(args[at]), &st, 0) == 0 &&
              S_ISFIFO(st.st_mode);
      break;
    }
    case SYS_fcntl:
      if (args[1] != F_SETLKW && args[1] != F_OFD_SETLKW) return Begun::NotMine;
      return probed_call(row, nr, args, result);
    default:
      return probed_call(row, nr, args, result);
  }
  if (waits) {
    if (row.traits & kMovesBytes)
      for (int i = 0; i < row.argc; i++)
        if (row.args[i].kind == Arg::Fd && args[i] < kTrackedFds && (bs_record.fd_kind[args[i]] & 3))
          return Begun::NotMine;
    return wait_in_kernel(row, nr, args, result);
  }
  if (row.how != How::Plain) return Begun::NotMine;
  // It should not block; if it does all the same (another process was quicker), our timer ends it.
  result = execute(row, nr, args);
  if (result == -EINTR && bs_record.pending_count == 0 && !signal_waits(turns_.current()))
    return wait_in_kernel(row, nr, args, result);
  log_call(row, nr, args, result);
  if (!shared_.empty() && changes_files(nr)) log_file_change(nr, args, result);
  return Begun::Done;
}

// --- calls that know about threads ---

std::optional<int64_t> Recorder::do_thread_name(const uint64_t args[6]) {
  Thread& me = process_.current();
  if (me.name == 1) return std::nullopt;
  char name[16] = {};
  const int fd = ::open(fmt::format("/proc/self/task/{}/comm", me.tid).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  int64_t result = 0;
  if (args[0] == PR_SET_NAME) {
    int64_t n = text_length(args[1], sizeof name - 1);
    if (n < 0 || !bs_guarded_copy(name, reinterpret_cast<const void*>(args[1]), static_cast<uint64_t>(n))) {
      result = -EFAULT;
    } else if (::write(fd, name, static_cast<size_t>(std::max<int64_t>(n, 1))) < 0) {
      result = -errno;
    }
  } else {
    ssize_t n = ::read(fd, name, sizeof name - 1);
    name[std::max<ssize_t>(n, 1) - 1] = 0;  // the newline
    if (!process_.writable(args[1], sizeof name)) {
      result = -EFAULT;
    } else {
      std::memcpy(reinterpret_cast<void*>(args[1]), name, sizeof name);
    }
  }
  ::close(fd);
  return result;
}

Recorder::Begun Recorder::thread_call(const Syscall& row, uint64_t nr, const uint64_t args[6],
                                      int64_t& result) {
  Thread& me = process_.current();
  auto done = [&](int64_t r, bool buffers = true) {
    log_call(row, nr, args, result = r, buffers);
    return Begun::Done;
  };
  switch (nr) {
    case SYS_sched_yield:
      yielded_ = true;
      bs_record.turn_request = true;
      return done(0);
    case SYS_futex:
      return do_futex(args, result);
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return do_sleep(nr, args, result);
    case SYS_pause:
    case SYS_rt_sigsuspend:
      return do_pause(nr, args, result);
    case SYS_rt_sigtimedwait:
      return do_sigtimedwait(args, result);
    case SYS_exit:
      do_exit_thread(static_cast<int>(args[0]));
      return Begun::Blocked;
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
      if (auto r = do_thread_kill(nr, args)) return done(*r);
      return Begun::NotMine;
    case SYS_rt_sigpending: {
      int64_t r = execute(row, nr, args);
      uint64_t set;
      if (r == 0 && args[1] == 8 && read_guest(args[0], &set) && process_.writable(args[0], 8)) {
        for (const siginfo_t& info : turns_.current().signals) set |= 1ull << (info.si_signo - 1);
        std::memcpy(reinterpret_cast<void*>(args[0]), &set, 8);
      }
      return done(r);
    }
    case SYS_timer_delete: {
      const int64_t r = execute(row, nr, args);
      if (r == 0) forget_timer(static_cast<int>(args[0]));
      return done(r);
    }
    case SYS_timer_create:
      if (auto r = do_timer_create(args)) return done(*r);
      return Begun::NotMine;
    case SYS_prctl:
      if (args[0] != PR_SET_NAME && args[0] != PR_GET_NAME) return Begun::NotMine;
      if (auto r = do_thread_name(args)) return done(*r);
      return Begun::NotMine;
    case SYS_clock_gettime: {
      if (args[0] != CLOCK_THREAD_CPUTIME_ID) return Begun::NotMine;
      const int64_t with_turn = turns_.current().cpu_ns + monotonic_ns() - turns_.turn_started();
      const int64_t ns = std::min(with_turn, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
      const Timespec ts{ns / kSecond, ns % kSecond};
      if (!process_.writable(args[1], sizeof ts)) return done(-EFAULT);
      std::memcpy(reinterpret_cast<void*>(args[1]), &ts, sizeof ts);
      return done(0);
    }
    case SYS_sched_setaffinity:
    case SYS_sched_getaffinity:
    case SYS_sched_setparam:
    case SYS_sched_getparam:
    case SYS_sched_setscheduler:
    case SYS_sched_getscheduler:
    case SYS_sched_rr_get_interval:
    case SYS_sched_setattr:
    case SYS_sched_getattr:
    case SYS_getpriority:
    case SYS_setpriority: {
      // 0 is the caller: for the kernel that would be the runner.
      const int who = nr == SYS_getpriority || nr == SYS_setpriority ? 1 : 0;
      if (static_cast<int>(args[who]) != 0 || me.name == 1 || (who == 1 && args[0] != PRIO_PROCESS))
        return Begun::NotMine;
      uint64_t real[6];
      std::copy(args, args + 6, real);
      real[who] = static_cast<uint64_t>(me.tid);
      return done(execute(row, nr, real));
    }
    default:
      if (row.traits & kMayBlock) return blocking_call(row, nr, args, result);
      return Begun::NotMine;
  }
}

}  // namespace backstep::recorder
