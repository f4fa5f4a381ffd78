// How signals reach the guest: which one is next, where it is delivered, and what the kernel does with it
// before it is ours.
//
// Faults are delivered where they happen, others at the instruction boundary or behind the call where the
// recorder has stopped. Signals that the guest blocks stay with the kernel, which knows their order.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>

#include "guest/buffers.h"
#include "record/recorder.h"
#include "record/succession.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

void Recorder::log_signal(const siginfo_t& info, uint8_t flags) {
  const Context& ctx = context();
  log_.reserve(4096);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  const recording::Order order{0, flags & recording::kAsynchronous ? next_order() : 0};
  uint8_t* at = log.begin(EventKind::Signal, flags, static_cast<uint16_t>(info.si_signo), order);
  at = log.put_place(at, ctx.tick, ctx.rip);
  at = recording::put_u32(at, register_digest(ctx));
  at = recording::put_varint(at, static_cast<uint64_t>(info.si_signo));
  std::memcpy(at, &info, sizeof info);
  log.commit(at + sizeof info);
}

// A fault of the guest's own: its handler, or death. Blocked and ignored faults kill, as in the kernel.
void Recorder::on_fault(const engine::FaultInfo& fault) {
  if (fault.signo == SIGSEGV && bs_record.sharing) {
    if (access_open(fault)) return;
    if (own_page(fault.address,
                 fault.error & engine::kWriteFault ? SharedObject::Hold::Write : SharedObject::Hold::Read,
                 false))
      return;
  }
  if (process_.alias_write(fault) || grow_down(fault)) return;
  on_guest_fault(fault);
}

void Recorder::on_guest_fault(const engine::FaultInfo& fault) {
  Context& ctx = context();
  const KernelSigaction& action = process_.actions[fault.signo];
  bool blocked = process_.signals.mask >> (fault.signo - 1) & 1;
  if (blocked || fate_of(action, fault.signo) != Fate::Handle) {
    cause_ = fault_siginfo(fault);
    die(fault.signo, ctx.rip);
  }
  if (bs_record.sharing) own_frame();
  siginfo_t info = fault_siginfo(fault);
  log_signal(info, 0);
  enter_handler(info, fault_trap(fault));
  tell_signals();  // SA_RESETHAND
  set_real_mask();
}

// The signal is logged. If there is no room for its frame, SIGSEGV follows in its place, as the kernel does
// it.
void Recorder::enter_handler(const siginfo_t& info, const TrapInfo& trap) {
  handled_ |= 1ull << (info.si_signo - 1);
  if (process_.push_handler(info.si_signo, info, trap)) return;
  const auto forced = process_.forced_by(info.si_signo);
  if (!forced) die(SIGSEGV, context().rip);
  log_signal(*forced, recording::kAsynchronous);
  if (!process_.push_handler(SIGSEGV, *forced, TrapInfo{})) die(SIGSEGV, context().rip);
}

// The first that the guest does not block (it may have blocked one since that arrived): those sent to the
// thread, then those sent to the process.
std::optional<siginfo_t> Recorder::next_signal() {
  HotState& s = bs_record;
  const uint64_t mask = process_.signals.mask;
  if (auto own = turns_.current().take_signal(~mask)) return own;
  if (process_.current().lodger) return std::nullopt;
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  unsigned at_index = 0;
  while (at_index < s.pending_count && mask >> (s.pending[at_index].si_signo - 1) & 1) at_index++;
  std::optional<siginfo_t> info;
  if (at_index < s.pending_count) {
    info = s.pending[at_index];
    s.pending_count = s.pending_count - 1;
    std::copy(s.pending + at_index + 1, s.pending + s.pending_count + 1, s.pending + at_index);
  }
  sigprocmask(SIG_SETMASK, &old, nullptr);
  return info;
}

// What the kernel has queued with this number. No more than can have been there at the beginning, since
// others may send as fast as we look; and a timer, which has one signal at a time, queues the next one when
// that is taken: there it would never end. What comes on top of a timer's signal is counted, as the kernel
// does it.
static void take_queued(int signo, std::vector<siginfo_t>& taken) {
  rlimit limit{};
  getrlimit(RLIMIT_SIGPENDING, &limit);
  const uint64_t set = 1ull << (signo - 1);
  const timespec now{};
  siginfo_t info;
  for (rlim_t n = 0; n <= limit.rlim_cur && syscall(SYS_rt_sigtimedwait, &set, &info, &now, 8) > 0; n++) {
    const auto same = std::find_if(taken.begin(), taken.end(), [&](const siginfo_t& i) {
      return info.si_code == SI_TIMER && i.si_code == SI_TIMER && i.si_timerid == info.si_timerid;
    });
    if (same != taken.end()) {
      same->si_overrun += 1 + info.si_overrun;
      return;
    }
    taken.push_back(info);
  }
}

// Signals that arrived before the guest blocked them: there the kernel finds them, for sigpending, signalfd
// and calls that wait with another mask. Those of a number that can be queued keep their order.
void Recorder::give_back_signals() {
  HotState& s = bs_record;
  if (s.pending_count == 0 || process_.current().lodger) return;
  set_real_mask();
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  std::vector<siginfo_t> waiting(s.pending, s.pending + s.pending_count);
  s.pending_count = 0;
  constexpr int kFirstRealTime = 32;
  for (size_t i = 0, own = waiting.size(); i < own; i++) {
    if (waiting[i].si_signo >= kFirstRealTime) take_queued(waiting[i].si_signo, waiting);
  }
  for (const siginfo_t& info : waiting)
    // The kernel lets a thread that names itself claim what the signal came with; it goes to the process all
    // the same.
    if (syscall(SYS_rt_sigqueueinfo, gettid(), info.si_signo, &info) != 0 &&
        s.pending_count < kPendingSignals) {
      s.pending[s.pending_count] = info;
      s.pending_count = s.pending_count + 1;
    }
  sigprocmask(SIG_SETMASK, &old, nullptr);
}

// Asynchronous signals that arrived: the guest meets them here, behind a system call.
void Recorder::deliver_pending(uint64_t nr, int64_t result) {
  Context& ctx = context();
  // First the request, then a look at what it was for: what arrives in between makes a new one.
  ctx.stop_request = 0;
  bs_record.attention = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (bs_record.pending_count == 0 && turns_.current().signals.empty() && bs_record.timer_hit_count == 0 &&
      !has_passed())
    return;
  bool first = true;
  route_signals();
  for (;;) {
    std::optional<siginfo_t> next = next_signal();
    if (!next) break;
    siginfo_t& info = *next;
    int signo = info.si_signo;
    switch (fate(signo)) {
      case Fate::Ignore:
      case Fate::StopProcess:
        set_real_mask();
        continue;
      case Fate::Die:
        cause_ = info;
        die(signo, ctx.rip, true);
      case Fate::Handle:
        break;
    }
    if (bs_record.sharing) own_frame();
    log_signal(info, recording::kAsynchronous);
    if (first) restart_interrupted(ctx, nr, result, process_.actions[signo]);
    first = false;
    enter_handler(info, TrapInfo{});
    set_real_action(signo);  // SA_RESETHAND
    tell_signals();
    set_real_mask();  // the next one may come now
  }
  give_back_signals();
}

void Recorder::inherit_signals() {
  if (before_) {
    for (int signo = 1; signo <= kSignals; signo++)
      if (before_->ignored >> (signo - 1) & 1) process_.actions[signo].handler = 1;
    process_.signals.mask = before_->blocked;
    if (before_->tsc_trapped) trap(Thread::kTrapTsc, true);
    mdwe_ = static_cast<uint8_t>(before_->mdwe);
    return;
  }
  for (int signo = 1; signo <= kSignals; signo++) {
    KernelSigaction current{};
    syscall(SYS_rt_sigaction, signo, nullptr, &current, 8);
    if (!is_synchronous(signo) && current.handler == 1) process_.actions[signo].handler = 1;
  }
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &process_.signals.mask, 8);
}

// The first process of a pid namespace gets no signals that it does not ask for.
Fate Recorder::fate(int signo) const {
  const Fate usual = fate_of(process_.actions[signo], signo);
  return usual != Fate::Handle && getpid() == 1 ? Fate::Ignore : usual;
}

void Recorder::set_real_actions() {
  for (int signo = 1; signo <= kSignals; signo++)
    if (signo != SIGKILL && signo != SIGSTOP) set_real_action(signo);
}

// What the kernel does with a signal before it is ours: ignored and stopping ones are left to it.
void Recorder::set_real_action(int signo) {
  const uint64_t bit = 1ull << (signo - 1);
  const KernelSigaction& action = process_.action(signo);
  const Fate usual = fate_of(action, signo);
  if (is_synchronous(signo)) {
    const bool ignored = usual == Fate::Ignore || (usual != Fate::Handle && getpid() == 1);
    bs_record.ignored_mask = ignored ? bs_record.ignored_mask | bit : bs_record.ignored_mask & ~bit;
    return;
  }
  bs_record.fatal_mask &= ~bit;
  if (usual == Fate::Handle || (usual == Fate::Die && getpid() != 1)) {
    if (usual == Fate::Die) bs_record.fatal_mask |= bit;
    engine::install_handler(signo, action.flags & (SA_NOCLDSTOP | SA_NOCLDWAIT));
    return;
  }
  KernelSigaction real{};
  real.flags = action.flags & (SA_NOCLDSTOP | SA_NOCLDWAIT);
  real.handler = action.handler == 1 ? 1 : 0;
  syscall(SYS_rt_sigaction, signo, &real, nullptr, 8);
}

// What is blocked is left pending in the kernel. Faults are how the engine works: they are never really
// blocked. With threads each kernel thread blocks what the guest thread with its tid does, so that the kernel
// finds who is to have a signal (record_seats.cc): so does the runner, if it has the first one's tid. What
// comes to who makes a call is different: it is for any of them.
void Recorder::set_real_mask() {
  tell_thread(process_.current());
  constexpr uint64_t kFaults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGFPE - 1) |
                               1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1);
  constexpr uint64_t kOfCalls = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1);
  const bool lodger = process_.current().lodger;
  uint64_t mask = lodger ? ~0ull : process_.signals.mask;
  for (const auto& [name, thread] : process_.threads())
    if (thread.get() != &process_.current() && !thread->lodger && !vfork_) mask &= thread->signals.mask;
  if (bs_record.threads && !vfork_) {
    const Task* const first = turns_.first();
    const bool as_first = first && first->thread->tid == bs_wakeups.runner;
    mask = (mask & kOfCalls) | ((as_first ? mask_of(*first) : ~0ull) & ~kOfCalls);
  }
  mask &= ~kFaults;
  if (lodger) lodger_mask(process_.signals.mask & ~kFaults);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, 8);
  show_mask(turns_.current());
}

}  // namespace backstep::recorder
