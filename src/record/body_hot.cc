// The life of a body: sleep, call, tell, sleep. Its code runs with the runner's host FS base loaded and so
// must stay in the hot world: no libc, no thread-local storage.
#include "record/body_hot.h"

#include "base/hot.h"
#include "engine/entry.h"

// The runner's stack, without its kernel thread: `to` has the stack pointer, callee-saved registers are on
// the stack. bs_leave_seat stores it there and calls `next` on another stack; bs_take_seat returns from that
// call of bs_leave_seat, in the kernel thread that calls it.
extern "C" {
void bs_leave_seat(uint64_t* to, void* stack, void (*next)(void*), void* argument);
[[noreturn]] void bs_take_seat(const uint64_t* from);
}
asm(R"(
	.text
	.globl bs_leave_seat
	.type bs_leave_seat, @function
bs_leave_seat:
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	movq %rcx, %rdi
	xorl %ebp, %ebp
	callq *%rdx
	ud2
	.size bs_leave_seat, . - bs_leave_seat
	.globl bs_take_seat
	.type bs_take_seat, @function
bs_take_seat:
	movq (%rdi), %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	ret
	.size bs_take_seat, . - bs_take_seat
)");

namespace backstep::recorder {

Wakeups bs_wakeups;
Passed bs_passed[kPassed];

namespace {

constexpr long kExitGroup = 231, kSigaction = 13, kPrctl = 157, kTgkill = 234, kEintr = -4;
constexpr long kFutex = 202, kExit = 60, kTgsigqueue = 297, kSigmask = 14, kMmap = 9, kMunmap = 11;
constexpr long kNotMade = -513;  // bs_call
constexpr long kSigaltstack = 131, kPause = 34, kNanosleep = 35;
constexpr long kWaitPrivate = 128, kWakePrivate = 129;
constexpr unsigned long kStackSize = 64 << 10;  // a signal frame with all vector state takes about 12 KB
// VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, PARENT_SETTID, CHILD_CLEARTID
constexpr unsigned long kCloneFlags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x100000 | 0x200000;

long address(const void* p) {
  return reinterpret_cast<long>(p);
}

void send_trap(int pid, int tid, uint64_t value) {
  struct {
    int signo, error, code, pad, pid, uid;
    uint64_t value;
    char rest[128 - 32];
  } info{5, 0, -1 /*SI_QUEUE*/, 0, bs_wakeups.pid, 0, value, {}};
  hot::syscall6(kTgsigqueue, pid, tid, 5, address(&info), 0, 0);
}

constexpr int kLastSignal = 64;
constexpr uint64_t kFaults = 1ull << 10 | 1ull << 6 | 1ull << 7 | 1ull << 3 | 1ull << 4;

void set_default(int signo) {
  const uint64_t action[4] = {};
  hot::syscall6(kSigaction, signo, address(action), 0, 8, 0, 0);
}

// Body::busy: others have the turn meanwhile, or the runner does nothing but wait.
constexpr uint32_t kWaitedFor = 1, kAwaited = 2;

// The runner on its way from one kernel thread to another.
struct {
  uint64_t stack;         // where it is
  uint64_t alternate[3];  // struct sigaltstack, for handlers
  Body* to;
} moving;

long start(Body& body, unsigned long flags, void (*life)(void*));
void tell(Body& body, Body::Command command);
void live(void* argument);

void block(uint64_t mask) {
  mask &= ~kFaults;
  hot::syscall6(kSigmask, 2, address(&mask), 0, 8, 0, 0);
}

[[noreturn]] void sit() {
  block(~0ull);
  hot::syscall6(kSigaltstack, address(moving.alternate), 0, 0, 0, 0, 0);
  bs_take_seat(&moving.stack);
}

constexpr long kPoll = 7, kEpollWait = 232, kEpollPwait = 281, kEpollPwait2 = 441, kSigtimedwait = 128,
               kSemtimedop = 220;

bool is_timed(long nr) {
  return nr == kPoll || nr == kEpollWait || nr == kEpollPwait || nr == kEpollPwait2 || nr == kSigtimedwait ||
         nr == kSemtimedop;
}

int64_t now_ns() {
  constexpr long kClockGettime = 228, kMonotonic = 1;
  int64_t time[2] = {};
  hot::syscall6(kClockGettime, kMonotonic, address(time), 0, 0, 0, 0);
  return time[0] * 1'000'000'000 + time[1];
}

// The call is made again: not for as long as before. (select and ppoll say themselves what is left.) Its
// times are in copies of ours.
void shorten(Body& body, int64_t& since) {
  const int64_t now = now_ns(), gone = now - since;
  since = now;
  const long nr = body.call[0];
  if (nr == kPoll || nr == kEpollWait || nr == kEpollPwait) {
    long& left = body.call[nr == kPoll ? 3 : 4];
    if (static_cast<int>(left) > 0) left = left > gone / 1'000'000 ? left - gone / 1'000'000 : 0;
  }
  if (nr == kEpollPwait2 || nr == kSigtimedwait || nr == kSemtimedop) {
    auto* time = reinterpret_cast<int64_t*>(body.call[nr == kSigtimedwait ? 3 : 4]);
    if (!time) return;
    const int64_t left = time[0] * 1'000'000'000 + time[1] - gone;
    time[0] = left > 0 ? left / 1'000'000'000 : 0;
    time[1] = left > 0 ? left % 1'000'000'000 : 0;
  }
}

// The signal of a write that nobody will read: the guest gets it from us, if it is to have it (finish_call).
void forget_sigpipe() {
  const uint64_t set = 1ull << 12;
  const int64_t none[2] = {};
  hot::syscall6(kSigtimedwait, address(&set), 0, address(none), 8, 0, 0);
}

// Has something come late since this was asked last?
bool was_late(int tid) {
  for (int& late : bs_wakeups.late)
    if (__atomic_load_n(&late, __ATOMIC_SEQ_CST) == tid) {
      __atomic_store_n(&late, 0, __ATOMIC_SEQ_CST);
      return true;
    }
  return false;
}

// Waits for the runner to take what was passed on from here to the process: of these one comes at a time.
// (And while the process ends: there is nothing to be done any more.) False: the call is not to be made
// again, for there is also a signal for the guest thread itself.
bool wait_for_taking(const Body& body) {
  const long brief[2] = {0, 50'000};
  for (;;) {
    bool waiting = __atomic_load_n(&bs_wakeups.ending, __ATOMIC_SEQ_CST);
    for (const Passed& place : bs_passed) {
      if (__atomic_load_n(&place.state, __ATOMIC_SEQ_CST) != Passed::kThere || !place.signo) continue;
      if (place.from != body.tid) continue;
      if (!place.to_process) return false;
      waiting = true;
    }
    if (!waiting) return true;
    if (__atomic_load_n(&body.interrupt, __ATOMIC_SEQ_CST)) return false;
    hot::syscall6(kNanosleep, address(brief), 0, 0, 0, 0, 0);
  }
}

// Signals that are not for the guest thread do not end its call: those of ours, which come where the runner
// was when they were asked for, and those to the process, which another one may be to have. (If it is this
// one, the runner says so: Body::interrupt.)
long make_call(Body& body) {
  constexpr long kEpipe = -32;
  int64_t since = is_timed(body.call[0]) ? now_ns() : 0;
  bool begun = false;  // the kernel has seen the call: so it does not count as not made
  if (!body.pid) was_late(body.tid);
  for (;;) {
    long result = bs_call(body.call[0], reinterpret_cast<const uint64_t*>(body.call + 1), &body.interrupt);
    if (result == kEpipe && !body.pid) forget_sigpipe();
    if ((result != kEintr && result != kNotMade) || body.pid) return result;
    begun |= result == kEintr;
    if (begun) result = kEintr;
    if (__atomic_load_n(&body.interrupt, __ATOMIC_SEQ_CST) || !was_late(body.tid)) return result;
    // The runner waits for this one, and takes nothing before it is there.
    if (__atomic_load_n(&body.busy, __ATOMIC_SEQ_CST) == kAwaited || !wait_for_taking(body)) return result;
    block(body.mask);
    if (is_timed(body.call[0])) shorten(body, since);
  }
}

// (A lodger may be killed at any place.)
void wake_runner_uncounted() {
  __atomic_fetch_add(&bs_wakeups.counter, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&bs_wakeups.idle, __ATOMIC_SEQ_CST)) {
    hot::syscall6(kFutex, address(&bs_wakeups.counter), kWakePrivate, 1, 0, 0, 0);
  } else {
    send_trap(bs_wakeups.pid, bs_wakeups.runner, kTurnSignal);
  }
}

void work(Body& body) {
  for (;;) {
    uint32_t command;
    while ((command = __atomic_load_n(&body.command, __ATOMIC_ACQUIRE)) == Body::Nothing)
      hot::syscall6(kFutex, address(&body.command), kWaitPrivate, Body::Nothing, 0, 0, 0);
    if (command == Body::Leave) break;
    // Another one may have come on top of a mask, which nobody waits for.
    command = __atomic_exchange_n(&body.command, Body::Nothing, __ATOMIC_SEQ_CST);
    if (command == Body::Leave) break;
    if (command == Body::Sit) sit();
    if (!__atomic_exchange_n(&body.masked, 1, __ATOMIC_SEQ_CST)) block(body.mask);
    if (command == Body::Mask) continue;
    body.result = command == Body::Start ? start(*body.other, kCloneFlags, live) : make_call(body);
    if (__atomic_exchange_n(&body.busy, 0, __ATOMIC_SEQ_CST) == kAwaited)
      hot::syscall6(kFutex, address(&body.busy), kWakePrivate, 1, 0, 0, 0);
    else
      body.pid ? wake_runner_uncounted() : wake_runner();
  }
}

// The first kernel thread of a process stays: /proc/self would be that of a zombie.
void live(void* argument) {
  Body& body = *static_cast<Body*>(argument);
  work(body);
  was_late(body.tid);
  while (body.tid == bs_wakeups.pid) hot::syscall6(kPause, 0, 0, 0, 0, 0, 0);
  for (;;) hot::syscall6(kExit, 0, 0, 0, 0, 0, 0);
}

// On the stack of the body that the runner leaves. Handlers have one stack, which is where the runner is.
void leave_seat(void* argument) {
  constexpr uint64_t kDisable = 2;
  const uint64_t none[3] = {0, kDisable, 0};
  hot::syscall6(kSigaltstack, address(none), 0, 0, 0, 0, 0);
  const uint64_t mask = static_cast<Body*>(argument)->mask;
  tell(*moving.to, Body::Sit);
  block(mask);
  live(argument);
}

// Signals that the guest does not block do with the process what they do by default. It ends with us.
void live_as_lodger(void* argument) {
  Body& body = *static_cast<Body*>(argument);
  constexpr long kSetPdeathsig = 1, kKill = 9, kSetMask = 2;
  hot::syscall6(kPrctl, kSetPdeathsig, kKill, 0, 0, 0, 0);
  for (int signo = 1; signo <= kLastSignal; signo++)
    if (!(kFaults >> (signo - 1) & 1)) set_default(signo);
  uint64_t mask = static_cast<uint64_t>(body.call[0]) & ~kFaults;
  hot::syscall6(kSigmask, kSetMask, address(&mask), 0, 8, 0, 0);
  work(body);
  if (body.status < 0) {
    const int signo = -body.status;
    set_default(signo);
    mask = ~(1ull << (signo - 1));
    hot::syscall6(kSigmask, kSetMask, address(&mask), 0, 8, 0, 0);
    hot::syscall6(kTgkill, body.pid, body.tid, signo, 0, 0, 0);
  }
  for (;;) hot::syscall6(kExitGroup, body.status, 0, 0, 0, 0, 0);
}

void tell(Body& body, Body::Command command) {
  __atomic_store_n(&body.command, command, __ATOMIC_RELEASE);
  hot::syscall6(kFutex, address(&body.command), kWakePrivate, 1, 0, 0, 0);
}

}  // namespace

void wake_runner() {
  __atomic_fetch_add(&bs_wakeups.waking, 1, __ATOMIC_SEQ_CST);
  wake_runner_uncounted();
  __atomic_fetch_sub(&bs_wakeups.waking, 1, __ATOMIC_SEQ_CST);
}

bool prepare_stack(Body& body) {
  constexpr long kReadWrite = 3, kPrivateAnonymous = 0x22;
  if (body.stack) return true;
  const long stack = hot::syscall6(kMmap, 0, kStackSize, kReadWrite, kPrivateAnonymous, -1, 0);
  if (!hot::is_error(stack)) body.stack = reinterpret_cast<void*>(stack);
  return !hot::is_error(stack);
}

namespace {

long start(Body& body, unsigned long flags, void (*life)(void*)) {
  constexpr long kEnomem = -12;
  if (!prepare_stack(body)) return kEnomem;
  uint64_t blocked = ~kFaults, before = 0;
  hot::syscall6(kSigmask, 2, address(&blocked), address(&before), 8, 0, 0);
  body.command = Body::Nothing;
  body.busy = body.interrupt = 0;
  body.alive = 1;
  long tid = bs_start_thread(flags, static_cast<char*>(body.stack) + kStackSize, &body.tid, &body.alive, life,
                             &body);
  hot::syscall6(kSigmask, 2, address(&before), 0, 8, 0, 0);
  return tid;
}

}  // namespace

bool start_body(Body& body) {
  return start(body, kCloneFlags, live) > 0;
}

long start_lodger(Body& body, uint64_t flags, uint64_t blocked_signals) {
  // Not SETTLS, CHILD_SETTID, PIDFD: those are the guest's. PARENT_SETTID and CHILD_CLEARTID are for us.
  constexpr uint64_t kTheGuests = 0x80000 | 0x1000000 | 0x1000, kOurs = 0x100000 | 0x200000;
  body.call[0] = static_cast<long>(blocked_signals);
  const long pid = start(body, (flags & ~kTheGuests) | kOurs, live_as_lodger);
  if (pid > 0) body.pid = static_cast<int>(pid);
  return pid;
}

namespace {

void begin(Body& body, uint64_t nr, const uint64_t args[6], uint32_t busy) {
  body.call[0] = static_cast<long>(nr);
  for (int i = 0; i < 6; i++) body.call[i + 1] = static_cast<long>(args[i]);
  body.interrupt = 0;
  __atomic_store_n(&body.busy, busy, __ATOMIC_SEQ_CST);
  tell(body, Body::Call);
}

long wait_for_result(Body& body) {
  const long brief[2] = {0, 10'000'000};
  while (__atomic_load_n(&body.busy, __ATOMIC_SEQ_CST)) {
    if (!__atomic_load_n(&body.alive, __ATOMIC_SEQ_CST)) return kEintr;
    hot::syscall6(kFutex, address(&body.busy), kWaitPrivate, kAwaited, address(brief), 0, 0);
  }
  return body.result;
}

}  // namespace

long call_now(Body& body, uint64_t nr, const uint64_t args[6]) {
  begin(body, nr, args, kAwaited);
  return wait_for_result(body);
}

bool start_by(Body& body, Body& other) {
  body.other = &other;
  __atomic_store_n(&body.busy, kAwaited, __ATOMIC_SEQ_CST);
  tell(body, Body::Start);
  return wait_for_result(body) > 0;
}

void move_runner(Body& from, Body& to) {
  uint64_t blocked = ~kFaults;
  hot::syscall6(kSigmask, 2, address(&blocked), 0, 8, 0, 0);
  hot::syscall6(kSigaltstack, 0, address(moving.alternate), 0, 0, 0, 0);
  from.command = Body::Nothing;
  from.busy = from.interrupt = 0;
  moving.to = &to;
  __atomic_store_n(&bs_wakeups.moved, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&bs_wakeups.runner, to.tid, __ATOMIC_SEQ_CST);
  bs_leave_seat(&moving.stack, static_cast<char*>(from.stack) + kStackSize, leave_seat, &from);
}

namespace {

template <typename Fill>
bool pass(Fill fill) {
  for (Passed& place : bs_passed) {
    uint32_t free = Passed::kFree;
    if (!__atomic_compare_exchange_n(&place.state, &free, Passed::kBeingWritten, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
      continue;
    fill(place);
    __atomic_store_n(&place.state, Passed::kThere, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&bs_wakeups.passed, 1, __ATOMIC_SEQ_CST);
    return true;
  }
  return false;
}

}  // namespace

bool pass_timer(uint32_t timer, int overrun) {
  return pass([&](Passed& place) { place.signo = 0, place.timer = timer, place.overrun = overrun; });
}

bool pass_signal(int signo, const void* info, int from, bool to_process) {
  return pass([&](Passed& place) {
    place.signo = signo;
    place.from = from;
    place.to_process = to_process;
    hot::copy(place.info, info, sizeof place.info);
  });
}

void free_place(Passed& place) {
  __atomic_store_n(&place.state, Passed::kFree, __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(&bs_wakeups.passed, 1, __ATOMIC_SEQ_CST);
}

void come_late(int tid) {
  for (int& late : bs_wakeups.late)
    if (__atomic_load_n(&late, __ATOMIC_SEQ_CST) == tid) return;
  for (int& late : bs_wakeups.late) {
    int nobody = 0;
    if (__atomic_compare_exchange_n(&late, &nobody, tid, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  }
}

void begin_call(Body& body, uint64_t nr, const uint64_t args[6]) {
  begin(body, nr, args, kWaitedFor);
}

void interrupt_call(Body& body) {
  __atomic_store_n(&body.interrupt, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&body.busy, __ATOMIC_SEQ_CST))
    send_trap(body.pid ? body.pid : bs_wakeups.pid, body.tid, kInterruptSignal);
}

void take_mask_soon(Body& body, uint64_t mask) {
  body.mask = mask;
  __atomic_store_n(&body.masked, 0, __ATOMIC_SEQ_CST);
  tell(body, Body::Mask);
}

void quiet(const Body& body) {
  send_trap(bs_wakeups.pid, body.tid, kInterruptSignal);
}

void end_body(Body& body) {
  tell(body, Body::Leave);
}

void free_stack(Body& body) {
  hot::syscall6(kMunmap, address(body.stack), kStackSize, 0, 0, 0, 0);
  body.stack = nullptr;
}

}  // namespace backstep::recorder
