// The life of a body: sleep, call, tell, sleep. Its code runs with the runner's host FS base loaded and so
// must stay in the hot world: no libc, no thread-local storage.
#include "record/body_hot.h"

#include "base/hot.h"
#include "engine/entry.h"

namespace backstep::recorder {

Wakeups bs_wakeups;

namespace {

constexpr long kExitGroup = 231, kSigaction = 13, kPrctl = 157, kTgkill = 234, kEintr = -4;
constexpr long kFutex = 202, kExit = 60, kTgsigqueue = 297, kSigmask = 14, kMmap = 9, kMunmap = 11;
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

void work(Body& body) {
  for (;;) {
    uint32_t command;
    while ((command = __atomic_load_n(&body.command, __ATOMIC_ACQUIRE)) == Body::Nothing)
      hot::syscall6(kFutex, address(&body.command), kWaitPrivate, Body::Nothing, 0, 0, 0);
    if (command == Body::Leave) break;
    __atomic_store_n(&body.command, Body::Nothing, __ATOMIC_RELAXED);
    body.result = bs_call(body.call[0], reinterpret_cast<const uint64_t*>(body.call + 1), &body.interrupt);
    __atomic_store_n(&body.busy, 0, __ATOMIC_SEQ_CST);
    wake_runner();
  }
}

void live(void* argument) {
  work(*static_cast<Body*>(argument));
  for (;;) hot::syscall6(kExit, 0, 0, 0, 0, 0, 0);
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
  __atomic_fetch_add(&bs_wakeups.counter, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&bs_wakeups.idle, __ATOMIC_SEQ_CST)) {
    hot::syscall6(kFutex, address(&bs_wakeups.counter), kWakePrivate, 1, 0, 0, 0);
  } else {
    send_trap(bs_wakeups.pid, bs_wakeups.runner, kTurnSignal);
  }
}

namespace {

long start(Body& body, unsigned long flags, void (*life)(void*)) {
  if (!body.stack) {
    constexpr long kReadWrite = 3, kPrivateAnonymous = 0x22;
    long stack = hot::syscall6(kMmap, 0, kStackSize, kReadWrite, kPrivateAnonymous, -1, 0);
    if (hot::is_error(stack)) return stack;
    body.stack = reinterpret_cast<void*>(stack);
  }
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

long call_now(Body& body, uint64_t nr, const uint64_t args[6]) {
  begin_call(body, nr, args);
  const long brief[2] = {0, 10'000'000};
  while (__atomic_load_n(&body.busy, __ATOMIC_SEQ_CST)) {
    if (!__atomic_load_n(&body.alive, __ATOMIC_SEQ_CST)) return kEintr;
    const uint32_t seen = __atomic_load_n(&bs_wakeups.counter, __ATOMIC_SEQ_CST);
    __atomic_store_n(&bs_wakeups.idle, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&body.busy, __ATOMIC_SEQ_CST))
      hot::syscall6(kFutex, address(&bs_wakeups.counter), kWaitPrivate, seen, address(brief), 0, 0);
    __atomic_store_n(&bs_wakeups.idle, 0, __ATOMIC_SEQ_CST);
  }
  return body.result;
}

void begin_call(Body& body, uint64_t nr, const uint64_t args[6]) {
  body.call[0] = static_cast<long>(nr);
  for (int i = 0; i < 6; i++) body.call[i + 1] = static_cast<long>(args[i]);
  body.interrupt = 0;
  __atomic_store_n(&body.busy, 1, __ATOMIC_SEQ_CST);
  tell(body, Body::Call);
}

void interrupt_call(Body& body) {
  __atomic_store_n(&body.interrupt, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&body.busy, __ATOMIC_SEQ_CST))
    send_trap(body.pid ? body.pid : bs_wakeups.pid, body.tid, kInterruptSignal);
}

void end_body(Body& body) {
  tell(body, Body::Leave);
}

void free_stack(Body& body) {
  hot::syscall6(kMunmap, address(body.stack), kStackSize, 0, 0, 0, 0);
  body.stack = nullptr;
}

}  // namespace backstep::recorder
