// Futexes. In private memory only threads of this process can wait and wake, so the queues are ours (turns.h)
// and a contended lock costs no kernel entry. In memory that other processes may share the kernel keeps them,
// and our bodies wait there like anybody else. Priority-inheriting locks hold the ids of guest threads, which
// the kernel does not know: those are always ours.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "guest/buffers.h"
#include "record/deadlines.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

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
  const int command = static_cast<int>(args[1]) & FUTEX_CMD_MASK;
  const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
  uint64_t real[6];
  std::copy(args, args + 6, real);
  // Where the guest has no rights it has none by another way either: then the kernel is asked about the
  // guest's own address.
  auto by_alias = [&](uint64_t& addr, bool written) {
    if (written ? !process_.writable(addr, 4) : !process_.readable(addr, 4)) return;
    const Region* r = process_.map.find(addr);
    if (SharedObject* object = r ? shared_object(*r) : nullptr)
      addr = object->alias(r->offset + (addr - r->start));
  };
  by_alias(real[0], false);
  if (command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE) by_alias(real[4], false);
  if (command == FUTEX_WAKE_OP) by_alias(real[4], true);
  if (!waits) {
    uint32_t before = 0, after = 0;
    if (command == FUTEX_WAKE_OP) {
      own_range(args[4], 4, SharedObject::Hold::Write);
      read_guest(args[4], &before);
    }
    result = hot::syscall(SYS_futex, real);
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
  if (owner == static_cast<uint32_t>(me.tid)) {
    result = -EDEADLK;
  } else if (owner == 0 && !turns_.first_waiter(addr)) {
    const bool taken = poke(addr, static_cast<uint32_t>(me.tid) | (word & FUTEX_OWNER_DIED));
    result = taken ? 0 : -EFAULT;
  } else if (!process_.writable(addr, 4)) {
    result = -EFAULT;
  } else {
    // Marked before it is known whose it is.
    if (!(word & FUTEX_WAITERS)) poke(addr, word | FUTEX_WAITERS);
    if (!turns_.by_tid(static_cast<int>(owner))) {
      result = -ESRCH;
    } else if (try_only) {
      result = -EWOULDBLOCK;
    } else {
      turns_.wait_futex(turns_.current(), addr, ~0u, deadline);
    }
  }
}

int64_t Recorder::unlock_pi(uint64_t addr, bool look_only) {
  uint32_t word;
  if (!read_guest(addr, &word)) return -EFAULT;
  if ((word & FUTEX_TID_MASK) != static_cast<uint32_t>(process_.current().tid)) return -EPERM;
  if (look_only) return 0;
  Task* heir = turns_.first_waiter(addr);
  if (!heir) {
    poke(addr, 0);
    return 0;
  }
  turns_.finish(*heir, 0);
  poke(addr, static_cast<uint32_t>(heir->thread->tid) | (turns_.waiters(addr) ? FUTEX_WAITERS : 0));
  return 0;
}

// The first waiter gets the lock at once, if that is free; the others, and it if not, wait for the lock from
// now on.
int64_t Recorder::requeue_pi(uint64_t addr, uint64_t lock, int most) {
  Task* first = turns_.first_waiter(addr);
  uint32_t word;
  if (!read_guest(lock, &word)) return -EFAULT;
  if (!first) return 0;
  if (first->args[4] != lock || (first->args[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_REQUEUE_PI) return -EINVAL;
  int served = 0;
  if (!(word & FUTEX_TID_MASK) && !turns_.first_waiter(lock)) {
    word = static_cast<uint32_t>(first->thread->tid) | (word & FUTEX_OWNER_DIED);
    turns_.finish(*first, 0);
    served = 1;
    poke(lock, word);
  }
  const int moved = turns_.requeue(addr, lock, std::min(most, INT_MAX - 1) + 1 - served);
  if (moved && !(word & FUTEX_WAITERS)) poke(lock, word | FUTEX_WAITERS);
  return served + moved;
}

// What is wrong with the address of a futex. A private one is just a number until it is looked at; others are
// known by what lies behind them: which must be there, and be writable unless it is a file's.
int Recorder::futex_error(uint64_t addr, uint64_t op, bool written) {
  constexpr uint64_t kUserEnd = 0x7fff'ffff'f000;
  if (addr % 4) return -EINVAL;
  if (addr >= kUserEnd) return -EFAULT;
  if ((op & FUTEX_PRIVATE_FLAG) || process_.writable(addr, 4)) return 0;
  const Region* r = process_.map.find(addr);
  return !written && r && r->inode && process_.readable(addr, 4) ? 0 : -EFAULT;
}

Recorder::Begun Recorder::do_futex(const uint64_t args[6], int64_t& result) {
  const uint64_t addr = args[0], addr2 = args[4];
  const int command = static_cast<int>(args[1]) & FUTEX_CMD_MASK;
  const auto value = static_cast<uint32_t>(args[2]);
  const auto count = static_cast<int>(args[2]), count2 = static_cast<int>(args[3]);
  const int clock = args[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  const Syscall& row = syscall_row(SYS_futex);
  auto done = [&](int64_t r) {
    log_call(row, SYS_futex, args, result = r, false);
    return Begun::Done;
  };
  // In the order of the kernel, which looks at the time first.
  int64_t deadline = kNever;
  const bool timed = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI ||
                     command == FUTEX_LOCK_PI2 || command == FUTEX_WAIT_REQUEUE_PI;
  if (timed && args[3]) {
    Timespec ts;
    if (!read_guest(args[3], &ts)) return done(-EFAULT);
    if (!ts.valid()) return done(-EINVAL);
    deadline = deadline_of(ts, command == FUTEX_LOCK_PI ? CLOCK_REALTIME : clock, command != FUTEX_WAIT);
  }
  if (clock == CLOCK_REALTIME && command != FUTEX_WAIT_BITSET && command != FUTEX_WAIT_REQUEUE_PI &&
      command != FUTEX_LOCK_PI2)
    return done(-ENOSYS);
  // The kernel knows its own threads as owners of priority-inheriting locks, not ours: those we keep
  // ourselves.
  const bool pi = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2 || command == FUTEX_UNLOCK_PI ||
                  command == FUTEX_TRYLOCK_PI || command == FUTEX_WAIT_REQUEUE_PI ||
                  command == FUTEX_CMP_REQUEUE_PI;
  if (const Region* r = process_.map.find(addr); r && (r->flags & MAP_SHARED) && process_.readable(addr, 4)) {
    if (!pi) return futex_in_kernel(args, result);
    note_once("a priority-inheriting lock in shared memory: waiters in other processes are not woken");
  }
  const auto bad = [&](uint64_t a, bool written) { return futex_error(a, args[1], written); };
  uint32_t word = 0;
  switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      const uint32_t bitset = command == FUTEX_WAIT ? ~0u : static_cast<uint32_t>(args[5]);
      if (bitset == 0) return done(-EINVAL);
      if (const int error = bad(addr, false)) return done(error);
      if (!read_guest(addr, &word)) return done(-EFAULT);
      if (word != value) return done(-EAGAIN);
      if (signal_waits(turns_.current())) return done(-EINTR);
      if (chaos_.one_in(50)) return done(0);  // nobody may rely on a wake-up having a reason
      turns_.wait_futex(turns_.current(), addr, bitset, deadline);
      return blocked(SYS_futex, args);
    }
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: {
      const uint32_t bitset = command == FUTEX_WAKE ? ~0u : static_cast<uint32_t>(args[5]);
      if (bitset == 0) return done(-EINVAL);
      if (const int error = bad(addr, false)) return done(error);
      return done(wake_futex(addr, std::max(count, 1), bitset));
    }
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE: {
      if (count < 0 || count2 < 0) return done(-EINVAL);
      if (const int error = bad(addr, false)) return done(error);
      if (const int error = bad(addr2, false)) return done(error);
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
      if (const int error = bad(addr, false)) return done(error);
      if (const int error = bad(addr2, true)) return done(error);
      if ((code >> 28 & 7) > FUTEX_OP_XOR) return done(-ENOSYS);
      if (!process_.writable(addr2, 4) || !read_guest(addr2, &word)) return done(-EFAULT);
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
        default:
          fresh = word ^ static_cast<uint32_t>(operand);
          break;
      }
      poke(addr2, fresh);  // even if the comparison is none
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
      int woken = wake_futex(addr, std::max(count, 1), ~0u);
      if (second) woken += wake_futex(addr2, std::max(count2, 1), ~0u);
      return done(woken);
    }
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_TRYLOCK_PI: {
      if (const int error = bad(addr, true)) return done(error);
      std::optional<int64_t> now;
      lock_pi(addr, deadline, command == FUTEX_TRYLOCK_PI, now);
      return now ? done(*now) : blocked(SYS_futex, args);
    }
    case FUTEX_UNLOCK_PI:
      if (const int64_t error = unlock_pi(addr, true)) return done(error);
      if (const int error = bad(addr, true)) return done(error);
      return done(unlock_pi(addr, false));
    case FUTEX_WAIT_REQUEUE_PI:
      if (addr == addr2) return done(-EINVAL);
      if (const int error = bad(addr2, true)) return done(error);
      if (const int error = bad(addr, false)) return done(error);
      if (!read_guest(addr, &word)) return done(-EFAULT);
      if (word != value || signal_waits(turns_.current())) return done(-EAGAIN);
      turns_.wait_futex(turns_.current(), addr, ~0u, deadline);
      return blocked(SYS_futex, args);
    case FUTEX_CMP_REQUEUE_PI:
      if (count != 1 || count2 < 0 || addr == addr2) return done(-EINVAL);
      if (const int error = bad(addr, false)) return done(error);
      if (const int error = bad(addr2, true)) return done(error);
      if (!read_guest(addr, &word)) return done(-EFAULT);
      if (word != static_cast<uint32_t>(args[5])) return done(-EAGAIN);
      return done(requeue_pi(addr, addr2, count2));
    default:
      return done(-ENOSYS);
  }
}

}  // namespace backstep::recorder
