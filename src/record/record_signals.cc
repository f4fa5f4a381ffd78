// Signals to threads: those that one thread sends to another, timers that are directed at one, and which
// thread takes a signal that is sent to the process.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "guest/buffers.h"
#include "record/mid_call.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

constexpr int kFirstRealTime = 32;

// The limit is on all signals of a user's; with this one no other is needed to reach it.
bool nothing_can_be_queued() {
  rlimit limit{};
  return getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_cur == 0;
}

// 0: it is no pidfd.
int pid_behind(int fd) {
  std::ifstream info(fmt::format("/proc/thread-self/fdinfo/{}", fd));
  std::string word;
  int pid = 0;
  while (info >> word)
    if (word == "Pid:") info >> pid;
  return std::max(pid, 0);
}

bool is_there(const Passed& place) {
  return __atomic_load_n(&place.state, __ATOMIC_SEQ_CST) == Passed::kThere;
}

bool has_signalfd() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/thread-self/fd", ignored))
    if (std::filesystem::read_symlink(entry, ignored) == "anon_inode:[signalfd]") return true;
  return false;
}

}  // namespace

bool Recorder::signal_waits(Task& task) {
  const uint64_t mask = mask_of(task);
  return std::any_of(task.signals.begin(), task.signals.end(),
                     [&](const siginfo_t& i) { return !(mask >> (i.si_signo - 1) & 1); });
}

void Recorder::send_to(Task& task, const siginfo_t& info) {
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

void Recorder::forget_signal(int signo) {
  HotState& s = bs_record;
  auto is_it = [&](const siginfo_t& i) { return i.si_signo == signo; };
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  s.pending_count =
      static_cast<unsigned>(std::remove_if(s.pending, s.pending + s.pending_count, is_it) - s.pending);
  sigprocmask(SIG_SETMASK, &old, nullptr);
  for (auto& [name, task] : turns_.tasks())
    if (!task->thread || !task->thread->lodger) std::erase_if(task->signals, is_it);
}

// Signals to the process go to a thread that does not block them: the first one if it can be, as in the
// kernel.
void Recorder::route_signals() {
  HotState& s = bs_record;
  if (!s.threads) return;
  const bool passed = has_passed();
  while (s.timer_hit_count || passed) {
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    auto hits = std::vector(s.timer_hits, s.timer_hits + s.timer_hit_count);
    s.timer_hit_count = 0;
    sigprocmask(SIG_SETMASK, &old, nullptr);
    for (Passed& place : bs_passed) {
      if (!is_there(place) || place.signo) continue;
      hits.push_back({place.timer, place.overrun});
      free_place(place);
    }
    if (hits.empty()) break;
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
  if (passed) take_passed_signals();
  bool moved = false;
  for (unsigned i = 0; i < s.pending_count;) {
    const siginfo_t info = s.pending[i];
    const uint64_t bit = 1ull << (info.si_signo - 1);
    auto takes = [&](Task& t) {
      if (t.thread->lodger) return false;
      return !(mask_of(t) & bit);
    };
    Task* target = turns_.first();
    // The kernel sends these to the thread that writes: the runner, for us.
    const bool own = (info.si_signo == SIGPIPE || info.si_signo == SIGXFSZ) && info.si_code == SI_USER &&
                     info.si_pid == getpid();
    if (!target || (own && !process_.current().lodger) || !takes(*target)) target = &turns_.current();
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
    take_signal(*target, info);
  }
  if (moved) set_real_mask();
}

// A signal that a thread does not block has come to it.
void Recorder::take_signal(Task& target, const siginfo_t& info) {
  const Thread& current = process_.current();
  const bool init = getpid() == 1;  // see fate()
  const Fate usual = fate_of(process_.action(info.si_signo), info.si_signo);
  switch (init && usual != Fate::Handle ? Fate::Ignore : usual) {
    case Fate::Die:
      cause_ = info;
      dying_ = target.thread;
      die(info.si_signo, context().rip - (current.in_call || MidCall::now ? 2 : 0), true, true);
    case Fate::Handle:
      send_to(target, info);
      break;
    default:
      break;
  }
}

// The memory of a child of vfork is its parent's, whose signals these are.
bool Recorder::has_passed() const {
  return !vfork_ && bs_wakeups.bodies &&
         (__atomic_load_n(&bs_wakeups.passed, __ATOMIC_SEQ_CST) ||
          __atomic_load_n(&bs_wakeups.crowded, __ATOMIC_SEQ_CST));
}

// What has come to a kernel thread with the tid of a guest thread is for that one; or for the process, and
// the kernel chose this one. The kernel thread has blocked all others since.
void Recorder::take_passed_signals() {
  const bool crowded = __atomic_exchange_n(&bs_wakeups.crowded, 0, __ATOMIC_SEQ_CST);
  for (Passed& place : bs_passed) {
    if (!is_there(place) || !place.signo) continue;
    siginfo_t info;
    std::memcpy(&info, place.info, sizeof info);
    Task* const task = turns_.by_tid(place.from);
    // The thread may have ended since.
    const bool to_process = place.to_process || (!task && info.si_code != SI_TKILL);
    if (to_process && !add_pending(info)) continue;
    free_place(place);
    if (!task) continue;
    task->shown_mask.reset();
    if (to_process) continue;
    Body* const body = kernel_thread_of(*task);
    if (mask_of(*task) >> (info.si_signo - 1) & 1 && task->wait != Task::Wait::Call && body) {
      // Blocked since: there the kernel finds it, for signalfd and the like.
      show_mask(*task);
      const uint64_t args[6] = {static_cast<uint64_t>(getpid()), static_cast<uint64_t>(body->tid),
                                static_cast<uint64_t>(info.si_signo), reinterpret_cast<uint64_t>(&info)};
      call_now(*body, SYS_rt_tgsigqueueinfo, args);
      continue;
    }
    take_signal(*task, info);
  }
  if (crowded)
    for (const auto& [name, task] : turns_.tasks()) task->shown_mask.reset();
  show_masks();
}

// As if the runner's own handler had got it. False: there is no room.
bool Recorder::add_pending(const siginfo_t& info) {
  HotState& s = bs_record;
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  const bool room = s.pending_count < kPendingSignals;
  if (room) {
    s.pending[s.pending_count] = info;
    s.pending_count = s.pending_count + 1;
  }
  sigprocmask(SIG_SETMASK, &old, nullptr);
  return room;
}

// tgkill and its relatives, to a thread of our own. nullopt: not to one.
std::optional<int64_t> Recorder::do_thread_kill(uint64_t nr, const uint64_t args[6]) {
  const int tid = static_cast<int>(nr == SYS_tkill ? args[0] : args[1]);
  const int signo = static_cast<int>(nr == SYS_tkill ? args[1] : args[2]);
  Task* task = turns_.by_tid(tid);
  if (!task) return std::nullopt;
  const int pid = task->thread->lodger ? task->thread->tid : getpid();
  // What one lodger or its host does to another is the kernel's business.
  if (task->thread->lodger && task != &turns_.current()) return std::nullopt;
  if (nr != SYS_tkill && static_cast<int>(args[0]) != pid) return std::nullopt;
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  if (nr == SYS_rt_tgsigqueueinfo) {
    if (!bs_guarded_copy(&info, reinterpret_cast<const void*>(args[3]), sizeof info)) return -EFAULT;
    if ((info.si_code >= 0 || info.si_code == SI_TKILL) && tid != process_.current().tid) return -EPERM;
  } else {
    info.si_code = SI_TKILL;
    info.si_pid = getpid();
    info.si_uid = getuid();
  }
  if (signo < 0 || signo > kSignals) return -EINVAL;
  if (signo == 0) return 0;
  info.si_signo = signo;
  if (nothing_can_be_queued() && info.si_code < 0) {
    if (signo >= kFirstRealTime) return -EAGAIN;
    std::memset(&info, 0, sizeof info);
    info.si_signo = signo;
  }
  const Fate what = fate(signo);
  if (signo == SIGKILL && what == Fate::Die) die(SIGKILL, context().rip - 2);
  if (task->thread->lodger && what != Fate::Handle) return std::nullopt;
  if (what == Fate::StopProcess) {
    fall_asleep_for_stop();
    ::kill(getpid(), signo);
    wake_up();
    return 0;
  }
  if (signo == SIGCONT) ::kill(getpid(), signo);
  const bool blocked = mask_of(*task) >> (signo - 1) & 1;
  if (what == Fate::Ignore && (!blocked || signo == SIGKILL || signo == SIGSTOP)) return 0;
  // A body that reads a signalfd, or polls one, finds there what was sent to the process, but nothing of our
  // books.
  const bool by_all = std::all_of(process_.threads().begin(), process_.threads().end(), [&](const auto& t) {
    const Thread& thread = *t.second;
    return thread.lodger ||
           (&thread == &process_.current() ? process_.signals.mask : thread.signals.mask) >> (signo - 1) & 1;
  });
  if (blocked && by_all && has_signalfd() && syscall(SYS_rt_sigqueueinfo, gettid(), signo, &info) == 0)
    return 0;
  send_to(*task, info);
  return 0;
}

// Signals to other processes, or all of this one. Who is to be stopped gives up its shared memory before, or
// others would wait for it as long as it is stopped.
int64_t Recorder::do_send_signal(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  const bool to_thread = nr == SYS_tgkill || nr == SYS_rt_tgsigqueueinfo;
  const uint64_t signo = args[to_thread ? 2 : 1];
  const bool stops = signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
  auto send = [&] {
    if (!stops || vfork_) return execute(row, nr, args);
    auto to = static_cast<int>(args[0]);
    if (nr == SYS_tkill) to = process_of(to);
    if (nr == SYS_pidfd_send_signal) to = pid_behind(to);
    const pid_t group = nr != SYS_kill ? -1 : to == 0 ? getpgrp() : to < -1 ? -to : -1;
    const bool all = nr == SYS_kill && to == -1;
    auto meant = [&](uint32_t pid) {
      return all || static_cast<int>(pid) == to || (group > 0 && getpgid(static_cast<pid_t>(pid)) == group);
    };
    // They may need pages of ours to come to a point where they can answer.
    if (meant(static_cast<uint32_t>(getpid())) && !all)
      fall_asleep_for_stop();
    else
      fall_asleep();
    int64_t result;
    {
      const shared_control::BeforeStop others(recording_.base(), meant);
      result = execute(row, nr, args);
    }
    wake_up();
    return result;
  };
  const int64_t result = send();
  // What a thread sends to its own process, and takes itself, it has when the call returns. If it has come to
  // the kernel thread with its tid, that has passed it on when it has done anything else.
  const bool to_us =
      static_cast<int>(args[0]) <= 0 || static_cast<int>(args[0]) == getpid() || nr == SYS_pidfd_send_signal;
  Body* const body = vfork_ || !bs_record.threads ? nullptr : kernel_thread_of(turns_.current());
  if (body && to_us && result == 0) {
    const uint64_t none[6] = {};
    call_now(*body, SYS_getpid, none);
  }
  return result;
}

std::optional<int64_t> Recorder::do_timer_create(const uint64_t args[6]) {
  sigevent event{};
  if (!args[1] || !read_guest(args[1], &event) || event.sigev_notify != SIGEV_THREAD_ID) return std::nullopt;
  if (!turns_.by_tid(event._sigev_un._tid) || !process_.writable(args[2], 4)) return std::nullopt;
  if (event.sigev_signo < 1 || event.sigev_signo > kSignals) return -EINVAL;
  ThreadTimer timer{event._sigev_un._tid, event.sigev_signo, 0,
                    reinterpret_cast<uint64_t>(event.sigev_value.sival_ptr)};
  event.sigev_signo = SIGTRAP;
  event._sigev_un._tid = home_->tid;  // stays, unlike seats
  event.sigev_value.sival_ptr = reinterpret_cast<void*>(kTimerSignal + thread_timers_.size());
  long result = syscall(SYS_timer_create, static_cast<int>(args[0]), &event, &timer.id);
  if (result != 0) return -errno;
  std::memcpy(reinterpret_cast<void*>(args[2]), &timer.id, 4);
  thread_timers_.push_back(timer);
  return 0;
}

// A deleted timer's signal does not arrive any more.
void Recorder::forget_timer(int id) {
  const MidCall here;
  route_signals();
  for (ThreadTimer& timer : thread_timers_) {
    if (timer.id != id || timer.tid == 0) continue;
    if (Task* task = turns_.by_tid(timer.tid))
      std::erase_if(task->signals,
                    [&](const siginfo_t& i) { return i.si_code == SI_TIMER && i.si_timerid == id; });
    timer.tid = 0;
  }
}

}  // namespace backstep::recorder
