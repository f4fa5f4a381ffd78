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
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "base/error.h"
#include "guest/buffers.h"
#include "record/deadlines.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EndKind;
using recording::TurnReason;

namespace {

constexpr int64_t kSlice = 2'000'000;  // ns that a thread may keep the turn while others want it

}  // namespace

// --- turns ---

int Recorder::make_timer(int clock, uint64_t value, int id) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGTRAP;
  event.sigev_value.sival_ptr = reinterpret_cast<void*>(value);
  event._sigev_un._tid = gettid();
  // The ids of the guest's own timers must not tell of ours: those get the last numbers there are, from
  // kernels that give out the number that is asked for. From others they get the next, and the guest's are
  // too large.
  constexpr int kRestoreIds = 77, kOff = 0, kOn = 1, kGet = 2;  // PR_TIMER_CREATE_RESTORE_IDS
  const int before = prctl(kRestoreIds, kGet, 0, 0, 0);
  const bool chosen = before >= 0;
  // Its signal counts from now on, and with all of this user's: the program's limit is not meant for it.
  rlimit limit{};
  getrlimit(RLIMIT_SIGPENDING, &limit);
  for (const rlim_t most : {RLIM_INFINITY, limit.rlim_max}) {
    const rlimit more{most, std::max(most, limit.rlim_max)};
    if (setrlimit(RLIMIT_SIGPENDING, &more) == 0) break;
  }
  int next = 0;
  sigevent none{};
  none.sigev_notify = SIGEV_NONE;
  if (chosen) {
    prctl(kRestoreIds, kOff, 0, 0, 0);
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &none, &next) == 0) syscall(SYS_timer_delete, next);
    prctl(kRestoreIds, kOn, 0, 0, 0);
  }
  const long made = syscall(SYS_timer_create, clock, &event, &id);
  const int err = errno;
  if (chosen) {
    // The kernel goes on from the number that was asked for last, and passes over those that are in use: so
    // it comes to the guest's next one from the last before it that is free.
    for (int last = next - 1; last >= 0; last--) {
      int got = last;
      if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &none, &got) != 0) continue;
      syscall(SYS_timer_delete, got);
      break;
    }
    prctl(kRestoreIds, before, 0, 0, 0);
  }
  setrlimit(RLIMIT_SIGPENDING, &limit);
  if (made != 0) throw Error("cannot make a timer: " + errno_text(err));
  return id;
}

void Recorder::start_threads() {
  if (bs_record.threads) return;
  bs_record.threads = true;
  bs_wakeups.bodies = 1;
  bs_wakeups.pid = getpid();
  bs_wakeups.runner = gettid();
  turns_.current().thread = &process_.current();
  try {
    timer_ = make_timer(CLOCK_MONOTONIC, kTurnSignal, kTurnTimer);
  } catch (const Error&) {  // a hard limit on signals: then a kernel thread sleeps until it is time
    alarm_ = std::make_unique<Body>();
    if (!start_body(*alarm_)) throw;
  }
  armed_ = 0;
  home_ = std::make_unique<Body>();
  home_->tid = gettid();
  home_->alive = 1;
  seat_ = home_.get();
  if (chaos_.on()) {
    process_.engine().set_check(true);
    context().limit = context().tick + chaos_.budget();
  }
}

void Recorder::end_threads() {
  process_.keep_only_current();
  process_.current().tid = gettid();
  turns_.keep_only_current();
  bs_wakeups.bodies = bs_wakeups.moved = bs_wakeups.passed = bs_wakeups.crowded = 0;
  std::fill(std::begin(bs_wakeups.late), std::end(bs_wakeups.late), 0);
  for (Passed& place : bs_passed) place.state = Passed::kFree;
  home_.reset();
  seat_ = nullptr;
  thread_timers_.clear();
  bs_record.threads = false;
  bs_record.turn_request = false;
  timer_ = -1;
  alarm_.reset();
  armed_ = 0;
}

// In place of a timer. An alarm that is set for later is called off first; the runner hears of that, and
// comes here again.
void Recorder::set_alarm(int64_t when) {
  if (__atomic_load_n(&alarm_->busy, __ATOMIC_SEQ_CST)) {
    armed_ = 0;
    return interrupt_call(*alarm_);
  }
  alarm_time_ = {when / kSecond, when % kSecond};
  const uint64_t args[6] = {CLOCK_MONOTONIC, TIMER_ABSTIME, reinterpret_cast<uint64_t>(&alarm_time_)};
  begin_call(*alarm_, SYS_clock_nanosleep, args);
}

// A timer is needed while others want the turn, and for the next deadline.
void Recorder::arm_timer() {
  int64_t wanted = turns_.next_deadline();
  const int64_t now = monotonic_ns();
  if (turns_.anyone_ready()) wanted = std::min(wanted, now + kSlice);
  if (wanted == kNever || (armed_ > now && armed_ <= wanted)) return;
  armed_ = std::max(wanted, now + 1);
  if (alarm_) return set_alarm(armed_);
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

// A program must expect EINTR from each call that waits if it has a handler that does not restart calls, and
// that has run before. (For one that it has for Ctrl-C, say, EINTR comes with the end.)
bool Recorder::may_be_interrupted() const {
  for (int signo = 1; signo <= kSignals; signo++)
    if (const KernelSigaction& a = process_.actions[signo];
        handled_ >> (signo - 1) & 1 && a.handler > 1 && !(a.flags & SA_RESTART))
      return true;
  return false;
}

// The current thread cannot go on, or should not. The next one that is ready gets the turn; that may be the
// same one again, if its wait is over before anybody else is ready.
void Recorder::pass_turn(TurnReason reason, bool between) {
  Task& from = turns_.current();
  Context& ctx = context();
  turns_.collect();
  route_signals();
  std::optional<size_t> choice;
  int64_t until = kNever;
  while (!turns_.anyone_ready() || !(choice = choose_next(until))) {
    fall_asleep();
    turns_.idle(until);
    wake_up();
    until = kNever;
    serve_shared();
    if (stop_asked_) serve_stop();
    serve_letters(!between);
    bs_record.turn_request = false;
    turns_.collect();
    drop_lost_lodgers();
    route_signals();
  }
  Task& next = turns_.take_ready(*choice);
  next.delayed_until = 0;
  if (chaos_.on()) ctx.limit = ctx.tick + 1 + chaos_.budget();
  if (&next != &from) {
    log_turn(reason, between ? recording::kAsynchronous : 0, between ? ctx.rip : ctx.rip - 2,
             next.thread->name);
    process_.turn_to(*next.thread);
    bs_record.lodger = next.thread->lodger ? next.body.get() : nullptr;
    use_table(from, next);
    sit_for(next);
    bs_record.trapped = next.thread->trapped != 0;
    turns_.set_current(next, monotonic_ns());
    if (reason == TurnReason::Ended) {
      Thread& ended = *from.thread;
      published_.thread_ended(ended.tid);  // it may have been told of since
      turns_.remove(from);
      process_.end_thread(ended);
      set_real_mask();
    }
  }
  arm_timer();
  show_mask(next);  // a call that it has waited in may have kept us from it
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
  drop_lost_lodgers();
  route_signals();
  const int64_t now = monotonic_ns();
  if (turns_.current().lost) return pass_turn(TurnReason::Preempted);
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
  // A call with a mask of its own has begun with the mask, for the guest.
  if (result == kNotMade && (task.teased || nr == SYS_rt_sigtimedwait || waiting_mask(nr, args)))
    result = -EINTR;
  task.teased = false;
  // Replay reads the mask here, so that is the one that counts (another thread may have changed it).
  if (process_.signals.restore_mask)
    if (auto mask = waiting_mask(nr, args)) process_.set_mask(*mask);
  task.thread->in_call = false;
  if (nr == SYS_rt_sigtimedwait && result == -EINTR) {
    uint64_t set = 0;
    read_guest(args[0], &set);
    if (auto found = task.take_signal(set)) {
      result = args[1] && !process_.copy_out(args[1], &*found, 128) ? -EFAULT : found->si_signo;
      task.scratched = false;
    }
  }
  // Here a signal is a wake-up without a reason, which is one of the answers that this call has.
  if (nr == SYS_futex && (args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_REQUEUE_PI && result == -EINTR)
    result = -EAGAIN;
  if (bs_record.sharing) own_arguments(row, nr, args);
  const bool was_scratched = task.scratched;
  if (task.scratched) {
    if (result != kNotMade) task.scratch.give_back(row, nr, result, task.counts, process_);
    task.scratch.clear();
    task.scratched = false;
  }
  if ((nr == SYS_nanosleep || nr == SYS_clock_nanosleep) && result == -EINTR && !was_scratched)
    result = interrupted_sleep(nr, args, task.timeout[0]);
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
  note_descriptor(row, nr, args, result);
  log_call(row, nr, args, result);
  if (row.traits & kChangesFiles) log_file_change(nr, args, result);
  context().gpr[RAX] = static_cast<uint64_t>(result);
  after_call(nr, args, result);
}

// --- starting and ending threads ---

bool Recorder::poke(uint64_t addr, uint32_t value) {
  if (!process_.writable(addr, 4)) return false;
  std::memcpy(reinterpret_cast<void*>(addr), &value, 4);
  log_memory(addr, 4, recording::kInCall);
  return true;
}

// A thread, or a lodger (record_lodgers.cc).
int64_t Recorder::do_clone(const uint64_t args[6]) {
  const uint64_t flags = args[0];
  const Syscall& row = syscall_row(SYS_clone);
  auto logged = [&](int64_t result) {
    log_call(row, SYS_clone, args, result, false);
    return result;
  };
  const bool lodger = is_lodger(flags);
  constexpr uint64_t kNeeded = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
  if (!lodger && (flags & kNeeded) != kNeeded) return logged(-EINVAL);
  if (lodger && (flags & CLONE_PIDFD)) {
    note_once(fmt::format("the program tried to start {} with CLONE_PIDFD: EAGAIN", kLodgers));
    return logged(-EAGAIN);
  }
  start_threads();
  auto body = std::make_unique<Body>();
  if (lodger) {
    if (long pid = start_lodger(*body, flags, process_.signals.mask); pid < 0) return logged(pid);
  } else if (!start_body(*body)) {
    return logged(-EAGAIN);
  }
  // Since Linux 6.9, which says EINVAL before that.
  constexpr uint64_t kOfThread = O_EXCL;
  int64_t pidfd = -1;
  if (flags & CLONE_PIDFD) {
    pidfd = -EFAULT;
    if (process_.writable(args[2], 4)) pidfd = syscall(SYS_pidfd_open, body->tid, kOfThread);
    if (pidfd == -1) pidfd = -errno;
    if (pidfd < 0) {
      turns_.retire(std::move(body));
      return logged(pidfd);
    }
  }
  Thread& thread = process_.start_thread(flags, args[1], args[4], body->tid);
  const int tid = thread.tid;
  if (const std::string name = thread_name(); !name.empty())
    std::ofstream(fmt::format("/proc/self/task/{}/comm", tid)) << name;
  if (flags & CLONE_CHILD_CLEARTID) thread.clear_child_tid = args[3];
  if (flags & CLONE_PARENT_SETTID) poke(args[2], static_cast<uint32_t>(tid));
  if (flags & CLONE_CHILD_SETTID) poke(args[3], static_cast<uint32_t>(tid));
  if (pidfd >= 0) poke(args[2], static_cast<uint32_t>(pidfd));
  Task& task = turns_.add(thread, std::move(body));
  task.seat = turns_.current().seat;
  task.table = turns_.current().table;
  if (lodger && !(flags & CLONE_FILES)) task.table = std::make_shared<Table>(table_now());
  start_in_own_world(task, flags);
  show_mask(task);
  tell_thread(thread);
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
  const auto others = std::count_if(process_.threads().begin(), process_.threads().end(),
                                    [](const auto& t) { return !t.second->lodger; });
  if (others == 1)
    finish(EndKind::Exit, status & 0xff,
           context().rip - 2);  // as the kernel since 5.17: the last one's status
  leave_own_files();
  // At once: the next one to have the turn may wait for somebody who waits for this thread's end. (The first
  // kernel thread of a process stays.)
  Task& task = turns_.current();
  task.lost = true;
  published_.thread_ended(thread.tid);
  if (task.body && task.body->tid == thread.tid && thread.tid != getpid()) end_body(*task.body);
  thread.in_call = true;
  pass_turn(TurnReason::Ended);
}

// --- calls that know about threads ---

std::optional<int64_t> Recorder::do_thread_name(const uint64_t args[6]) {
  Thread& me = process_.current();
  if (me.tid == bs_wakeups.runner) return std::nullopt;
  char name[17] = {};  // 15, a newline, the end
  const int fd = ::open(fmt::format("/proc/self/task/{}/comm", me.tid).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  int64_t result = 0;
  if (args[0] == PR_SET_NAME) {
    int64_t n = text_length(args[1], 15);
    if (n < 0 || !bs_guarded_copy(name, reinterpret_cast<const void*>(args[1]), static_cast<uint64_t>(n))) {
      result = -EFAULT;
    } else if (::write(fd, name, static_cast<size_t>(std::max<int64_t>(n, 1))) < 0) {
      result = -errno;
    }
  } else {
    ssize_t n = ::read(fd, name, sizeof name - 1);
    name[std::max<ssize_t>(n, 1) - 1] = 0;  // the newline
    if (!process_.copy_out(args[1], name, 16)) result = -EFAULT;
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
  if (me.lodger)
    if (auto begun = lodger_call(row, nr, args, result)) return *begun;
  if (row.traits & kMayBlock || nr == SYS_rt_sigpending || nr == SYS_rt_sigtimedwait) settle_mask();
  switch (nr) {
    case SYS_sched_yield:
      yielded_ = true;
      bs_record.turn_request = true;
      // It may wait for another process.
      if (bs_record.sharing && !turns_.anyone_ready()) syscall(SYS_sched_yield);
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
      if (r == 0 && args[1]) {  // as long as asked for, 8 bytes at most
        set = 0;
        bs_guarded_copy(&set, reinterpret_cast<const void*>(args[0]), args[1]);
        // Those to the thread that has the runner's tid are not this one's.
        uint64_t at_body = 0;
        const uint64_t ask[6] = {reinterpret_cast<uint64_t>(&at_body), 8};
        Body* const body = kernel_thread_of(turns_.current());
        if (body && call_now(*body, SYS_rt_sigpending, ask) == 0) set = at_body;
        for (const siginfo_t& info : turns_.current().signals) set |= 1ull << (info.si_signo - 1);
        process_.copy_out(args[0], &set, args[1]);
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
      if (static_cast<int>(args[0]) != CLOCK_THREAD_CPUTIME_ID) return Begun::NotMine;
      const int64_t with_turn = turns_.current().cpu_ns + monotonic_ns() - turns_.turn_started();
      const int64_t ns = std::min(with_turn, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
      const Timespec ts{ns / kSecond, ns % kSecond};
      return done(process_.copy_out(args[1], &ts, sizeof ts) ? 0 : -EFAULT);
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
    case SYS_setpriority:
    case SYS_ioprio_get:
    case SYS_ioprio_set: {
      // 0 is the caller: for the kernel that would be the runner.
      constexpr int kIoprioProcess = 1;  // IOPRIO_WHO_PROCESS
      const bool io = nr == SYS_ioprio_get || nr == SYS_ioprio_set;
      const int who = io || nr == SYS_getpriority || nr == SYS_setpriority ? 1 : 0;
      if (static_cast<int>(args[who]) != 0 || me.tid == bs_wakeups.runner ||
          (who == 1 && static_cast<int>(args[0]) != (io ? kIoprioProcess : PRIO_PROCESS)))
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
