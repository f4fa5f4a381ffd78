// System calls of functions of the recorded program that debug code has called.
//
// They have not happened in the recorded run, so nothing of them may happen anywhere: what the function
// prints is told as the debug code's output, memory that it asks for is lent to it until the call is over,
// what it asks about itself gets an answer, and all else an error, as if it were not permitted.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>

#include "engine/entry.h"
#include "guest/syscall_table.h"
#include "replay/debug_world.h"

namespace backstep::replayer {

int64_t DebugWorld::program_gets(Address to, const void* data, uint64_t size) {
  if (!DebugMemory::owns(to, size) && !undo_.open(to, size)) return -EFAULT;
  return bs_guarded_copy(reinterpret_cast<void*>(to), data, size) ? 0 : -EFAULT;
}

// Nullopt: it is not permitted.
std::optional<int64_t> DebugWorld::program_result(uint64_t nr, const uint64_t args[6]) {
  const bool to_output = args[0] == 1 || args[0] == 2;
  switch (nr) {
    case SYS_write:
      if (!to_output) return std::nullopt;
      return output(static_cast<int>(args[0]), args[1], args[2]);
    case SYS_writev: {
      if (!to_output) return std::nullopt;
      return write_call(nr, args);
    }
    case SYS_mmap:
      if (!(args[3] & MAP_ANONYMOUS)) return std::nullopt;
      return memory_.mmap(args, -1);
    case SYS_munmap:
      // The guest's own stays: it would have to be put back.
      return DebugMemory::owns(args[0], args[1]) ? memory_.munmap(args[0], args[1]) : 0;
    case SYS_mprotect:
      return DebugMemory::owns(args[0], args[1]) ? memory_.mprotect(args[0], args[1], args[2]) : -ENOMEM;
    case SYS_brk:
      return static_cast<int64_t>(process_.map.brk);
    case SYS_madvise:
    case SYS_rt_sigprocmask:
    case SYS_sched_yield:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return 0;
    case SYS_gettid:
      return process_.current().tid;
    case SYS_getpid:
      return process_.threads().begin()->second->tid;
    case SYS_clock_gettime: {
      timespec now{};
      if (::clock_gettime(static_cast<clockid_t>(args[0]), &now) != 0) return -EINVAL;
      return program_gets(args[1], &now, sizeof now);
    }
    case SYS_time:
      return ::time(nullptr);
    case SYS_ioctl:
      return -ENOTTY;
    case SYS_futex: {
      const uint64_t op = args[1] & FUTEX_CMD_MASK;
      if (op == FUTEX_WAKE) return 0;
      return -EPERM;
    }
    default:
      return std::nullopt;
  }
}

DebugWorld::Next DebugWorld::program_call() {
  Context& ctx = context();
  const uint64_t nr = ctx.gpr[RAX];
  uint64_t args[6];
  guest::syscall_args(ctx, args);
  const std::string who = "calls a function of the program that ";
  switch (nr) {
    case SYS_exit:
    case SYS_exit_group:
      return fail(who + "ends the program");
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
      return fail(who + "sends a signal, or aborts");
    case SYS_execve:
    case SYS_execveat:
    case SYS_clone:
    case SYS_clone3:
    case SYS_fork:
    case SYS_vfork:
      return fail(who + "starts a process or a thread");
    case SYS_futex:
      if (const uint64_t op = args[1] & FUTEX_CMD_MASK; op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET)
        return fail(who + "waits for a lock, which another thread of the program holds at this moment");
      break;
    case SYS_rt_sigreturn:
      return fail(who + "returns from a signal handler");
    default:
      break;
  }
  ctx.gpr[RAX] = static_cast<uint64_t>(program_result(nr, args).value_or(-EPERM));
  return Next::GoOn;
}

}  // namespace backstep::replayer
