// Calls that may wait, in a program with threads. First the question is whether this one will: descriptors
// are polled, calls that can be asked for their answer right now are asked. If so, the thread's body makes
// the call on copies of its buffers, and another thread has the turn.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "guest/buffers.h"
#include "record/deadlines.h"
#include "record/mid_call.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

bool is_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 || (flags & O_NONBLOCK);
}

// Also this poll, which does not wait, is interrupted by signals (the turn's timer, for one).
bool is_ready(int fd, short events) {
  pollfd p{fd, events, 0};
  int ready;
  do ready = poll(&p, 1, 0);
  while (ready < 0 && errno == EINTR);
  return ready != 0;
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

bool is_called(int fd, std::string_view wanted) {
  char name[40];
  const std::string path = "/proc/thread-self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(path.c_str(), name, sizeof name);
  return n > 0 && std::string_view(name, static_cast<size_t>(n)) == wanted;
}

bool is_signalfd(int fd) {
  return is_called(fd, "anon_inode:[signalfd]");
}

bool has_signalfd_in_epoll(int fd) {
  std::ifstream info("/proc/thread-self/fdinfo/" + std::to_string(fd));
  int member = -1;
  for (std::string word; info >> word;)
    if (word == "tfd:" && info >> member &&
        (is_signalfd(member) || is_called(member, "anon_inode:[eventpoll]")))
      return true;
  return false;
}

bool leads_to_signals(int fd) {
  return is_signalfd(fd) || (is_called(fd, "anon_inode:[eventpoll]") && has_signalfd_in_epoll(fd));
}

// Does it never wait, so that the kernel never ends it with EINTR?
bool answers_at_once(const Waiting& waiting, const uint64_t args[6]) {
  if (waiting.told_not_to(args)) return true;
  const bool on_descriptor = waiting.what == Waiting::Input || waiting.what == Waiting::Output ||
                             waiting.what == Waiting::Connection;
  return on_descriptor && is_nonblocking(static_cast<int>(args[0]));
}

// May a signal that is pending be the answer to this call?
bool finds_signals(uint64_t nr, const uint64_t args[6]) {
  constexpr uint64_t kMost = 1024;
  if (nr == SYS_rt_sigtimedwait) return true;
  if (!bs_record.signalfds) return false;
  const auto fd = static_cast<int>(args[0]);
  switch (nr) {
    case SYS_read:
    case SYS_readv:
      return is_signalfd(fd);
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      return has_signalfd_in_epoll(fd);
    case SYS_poll:
    case SYS_ppoll:
      for (uint64_t i = 0; i < std::min(args[1], kMost); i++) {
        pollfd p{};
        if (read_guest(args[0] + i * sizeof p, &p) && (p.events & POLLIN) && leads_to_signals(p.fd))
          return true;
      }
      return false;
    case SYS_select:
    case SYS_pselect6:
      for (uint64_t i = 0; args[1] && i < std::min(args[0], kMost); i++) {
        uint8_t bits = 0;
        if (read_guest(args[1] + i / 8, &bits) && (bits >> i % 8 & 1) &&
            leads_to_signals(static_cast<int>(i)))
          return true;
      }
      return false;
    default:
      return false;
  }
}

void drop_waiting_mask(const Waiting& waiting, uint64_t args[6]) {
  if (waiting.what == Waiting::Events && waiting.mask >= 0) args[waiting.mask] = 0;
}

// Does the kernel refuse it before it would wait, because of the time or the mask to wait with? (A question
// with the time 0 and without the mask would not tell.)
bool is_refused(const Waiting& waiting, const uint64_t args[6]) {
  uint64_t set;
  if (waiting.mask >= 0) {
    uint64_t mask[2] = {args[waiting.mask], sizeof set};
    if (!waiting.mask_behind) {
      mask[1] = args[waiting.mask + 1];
    } else if (mask[0] && !read_guest(mask[0], &mask)) {
      return true;
    }
    if (mask[0] && (mask[1] != sizeof set || !read_guest(mask[0], &set))) return true;
  }
  if (waiting.time < 0 || waiting.unit == Waiting::TimeUnit::Milliseconds || !args[waiting.time])
    return false;
  Timespec ts;
  if (!read_guest(args[waiting.time], &ts)) return true;
  if (waiting.unit == Waiting::TimeUnit::Timeval)  // microseconds, which may be more than a second
    ts = {ts.seconds + ts.nanoseconds / 1'000'000, ts.nanoseconds % 1'000'000 * 1000};
  return !ts.valid();
}

}  // namespace

Recorder::Begun Recorder::do_sleep(uint64_t nr, const uint64_t args[6], int64_t& result) {
  const uint64_t request = nr == SYS_nanosleep ? args[0] : args[2];
  const auto clock = nr == SYS_nanosleep ? CLOCK_MONOTONIC : static_cast<int>(args[0]);
  const bool absolute = nr == SYS_clock_nanosleep && (args[1] & TIMER_ABSTIME);
  Timespec ts;
  auto done = [&](int64_t r) {
    log_call(syscall_row(nr), nr, args, result = r);
    return Begun::Done;
  };
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_TAI)
    return wait_in_kernel(syscall_row(nr), nr, args, result);
  if (!read_guest(request, &ts)) return done(-EFAULT);
  if (!ts.valid()) return done(-EINVAL);
  Task& task = turns_.current();
  const int64_t deadline = deadline_of(ts, clock, absolute);
  if (signal_waits(task)) return done(interrupted_sleep(nr, args, deadline));
  task.timeout[0] = deadline;
  std::fill(task.counts, task.counts + 6, 0);
  turns_.wait(task, Task::Wait::Sleep, deadline, 0);
  return blocked(nr, args);
}

int64_t Recorder::interrupted_sleep(uint64_t nr, const uint64_t args[6], int64_t deadline) {
  const uint64_t rem = nr == SYS_nanosleep ? args[1] : (args[1] & TIMER_ABSTIME) ? 0 : args[3];
  const int64_t left = std::max<int64_t>(0, deadline - monotonic_ns());
  const Timespec ts{left / kSecond, left % kSecond};
  return rem && !process_.copy_out(rem, &ts, sizeof ts) ? -EFAULT : -EINTR;
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
    const MidCall here;
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
  Timespec limit{1, 0};
  if (args[3] != 8 || !read_guest(args[0], &set) ||
      (args[2] && (!read_guest(args[2], &limit) || !limit.valid())))
    return Begun::NotMine;  // the kernel says so at once
  if (auto found = task.take_signal(set)) {
    result = args[1] && !process_.copy_out(args[1], &*found, 128) ? -EFAULT : found->si_signo;
    log_call(row, kNr, args, result);
    return Begun::Done;
  }
  leave_first_to_wait(kNr);
  if (!task.scratch.make(row, kNr, args, process_)) return Begun::NotMine;
  const Timespec zero{0, 0};
  uint64_t probe[6];
  std::copy(task.scratch.args(), task.scratch.args() + 6, probe);
  probe[2] = reinterpret_cast<uint64_t>(&zero);
  const int64_t now = has_own_body() ? call_now(*task.body, kNr, probe) : hot::syscall(kNr, probe);
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
  if (finds_signals(nr, args)) leave_first_to_wait(nr);
  Task& task = turns_.current();
  if (!task.scratch.make(row, nr, args, process_)) {
    // Pointers to nowhere: the kernel will say so, mostly without waiting.
    log_call(row, nr, args, result = execute_here(row, nr, args));
    return Begun::Done;
  }
  if (auto mask = waiting_mask(nr, args)) {
    process_.suspend_mask(*mask);
    set_real_mask();
    drop_waiting_mask(row.waiting, task.scratch.args());
    const MidCall here;
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
  task.teased = chaos_.one_in(20) && may_be_interrupted() && !answers_at_once(row.waiting, args);
  if (signal_waits(task) || task.teased) turns_.interrupt(task);
  return blocked(nr, args);
}

// The runner itself makes the call. If a signal ends it that is not for this thread, it was not made.
int64_t Recorder::execute_here(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  const int64_t result = execute(row, nr, args);
  if (result != -EINTR || !bs_record.attention) return result;
  const MidCall here;
  route_signals();
  return signal_waits(turns_.current()) ? result : kNotMade;
}

// Calls that can be asked for their answer right now: if there is none, the body waits.
Recorder::Begun Recorder::probed_call(const Syscall& row, uint64_t nr, const uint64_t args[6],
                                      int64_t& result) {
  Task& task = turns_.current();
  if (is_refused(row.waiting, args) || !task.scratch.make(row, nr, args, process_)) return Begun::NotMine;
  static const uint64_t zero[2] = {0, 0};
  static thread_local uint64_t zero_copy[2];
  std::copy(zero, zero + 2, zero_copy);
  const auto zero_at = reinterpret_cast<uint64_t>(zero_copy);
  uint64_t probe[6];
  std::copy(task.scratch.args(), task.scratch.args() + 6, probe);
  drop_waiting_mask(row.waiting, probe);
  const Waiting& waiting = row.waiting;
  int64_t none = 0;  // what it answers if there is nothing
  bool forever_or_later = true;
  switch (waiting.what) {
    case Waiting::Events:
      if (waiting.unit == Waiting::TimeUnit::Milliseconds) {
        forever_or_later = static_cast<int>(args[waiting.time]) != 0;
        probe[waiting.time] = 0;
      } else {
        uint64_t time[2] = {1, 0};
        if (args[waiting.time]) read_guest(args[waiting.time], &time);
        forever_or_later = time[0] != 0 || time[1] != 0;
        probe[waiting.time] = zero_at;
      }
      break;
    case Waiting::Child:
    case Waiting::Lock:
      if (waiting.what == Waiting::Lock) none = -EAGAIN;
      if (nr == SYS_fcntl) {
        probe[1] = args[1] == F_SETLKW ? F_SETLK : F_OFD_SETLK;
      } else {
        forever_or_later = !waiting.told_not_to(args);
        probe[waiting.flags] |= waiting.flag_bits;
      }
      break;
    default:
      return Begun::NotMine;
  }
  read_counts(row, nr, args, task.counts);
  int64_t now;
  const bool by_body = bs_record.signalfds && has_own_body();
  do now = by_body ? call_now(*task.body, nr, probe) : hot::syscall(nr, probe);
  while (now == -EINTR || now == kNotMade);
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
  const Waiting& waiting = row.waiting;
  auto may_take = [&] { return waiting.size >= 0 && args[waiting.size] <= kSmall && is_ready(fd, POLLOUT); };
  auto may_give = [&] { return !(waiting.flags_in(args) & MSG_WAITALL) && is_ready(fd, POLLIN); };
  bool waits = false;
  switch (waiting.what) {
    case Waiting::Input:
      waits = !is_file(args[0]) && !waiting.told_not_to(args) && !may_give() && !is_nonblocking(fd);
      // Signals to one thread are found by its own kernel thread only.
      if (bs_record.signalfds && has_own_body() && is_signalfd(fd)) waits = true;
      break;
    case Waiting::Output:
      waits = !is_file(args[0]) && !waiting.told_not_to(args) && !may_take() && !is_nonblocking(fd);
      break;
    case Waiting::Connection:
    case Waiting::Something:
      waits = !waiting.told_not_to(args);
      break;
    default:
      if (nr == SYS_open || nr == SYS_openat) {
        const int at = nr == SYS_open ? 0 : 1;
        const uint64_t flags = args[at + 1];
        struct stat st {};
        if (flags & O_NONBLOCK || (flags & O_ACCMODE) == O_RDWR) return Begun::NotMine;
        waits = fstatat(at ? fd : AT_FDCWD, reinterpret_cast<const char*>(args[at]), &st, 0) == 0 &&
                S_ISFIFO(st.st_mode);
        break;
      }
      if (nr == SYS_fcntl && args[1] != F_SETLKW && args[1] != F_OFD_SETLKW) return Begun::NotMine;
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
  // It should not block; if it does all the same (another process was quicker), our timer ends it, or keeps
  // it from being made.
  result = execute_here(row, nr, args);
  // Then it is made again from the start, and a body waits if it must: not with the number in the order of
  // all processes that was taken for this try.
  log_call(row, nr, args, result);
  if (row.traits & kChangesFiles) log_file_change(nr, args, result);
  return Begun::Done;
}

}  // namespace backstep::recorder
