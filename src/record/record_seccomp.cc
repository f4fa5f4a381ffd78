// Filters that the program installs for itself. guest/seccomp.h runs them; here is what comes of it: a call
// that a filter answers is not made, and is logged with the flag kDenied and its result, so that a replay
// needs no filters. A verdict of TRAP is such a call with a signal behind it.
//
// Natively, the time is asked for without a system call (vdso). Our guest has no vdso, so a filter that
// forbids such calls, and that the program could live with, would kill it here: these calls pass.
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "guest/buffers.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

bool may_install_filters() {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return true;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN);
}

bool is_strictly_allowed(uint64_t nr) {
  return nr == SYS_read || nr == SYS_write || nr == SYS_exit || nr == SYS_rt_sigreturn;
}

bool asks_the_vdso(uint64_t nr, const uint64_t args[6]) {
  constexpr uint64_t kClocks = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11;
  switch (nr) {
    case SYS_clock_gettime:
    case SYS_clock_getres:
      return args[0] <= 11 && (kClocks >> args[0] & 1);
    case SYS_gettimeofday:
    case SYS_time:
    case SYS_getcpu:
      return true;
    default:
      return false;
  }
}

}  // namespace

// True: a filter has answered; nothing else is to be done for this call.
bool Recorder::filtered_call(uint64_t nr, const uint64_t args[6]) {
  Context& ctx = context();
  const Thread& me = process_.current();
  if ((!me.filters && !me.strict) || asks_the_vdso(nr, args)) return false;
  if (me.strict) {
    if (is_strictly_allowed(nr)) return false;
    if (process_.threads().size() == 1) die(SIGKILL, ctx.rip - 2);
    do_exit_thread(SIGKILL);
    return true;
  }
  seccomp_data data{static_cast<int>(nr), AUDIT_ARCH_X86_64, ctx.rip, {}};
  std::copy(args, args + 6, data.args);
  const uint32_t verdict = run_filters(me.filters, data);
  const auto detail = static_cast<int>(verdict & SECCOMP_RET_DATA);
  constexpr int kMostErrno = 4095;
  switch (verdict & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
      return false;
    case SECCOMP_RET_ERRNO:
      deny(nr, args, -std::min(detail, kMostErrno));
      break;
    case SECCOMP_RET_TRACE:       // nobody traces a recorded process,
    case SECCOMP_RET_USER_NOTIF:  // and nobody listens
      deny(nr, args, -ENOSYS);
      break;
    case SECCOMP_RET_TRAP:
      deny(nr, args, static_cast<int64_t>(nr));
      trap(static_cast<int>(nr), detail);
      break;
    case SECCOMP_RET_KILL_THREAD:
      if (process_.threads().size() > 1 && !vfork_) {
        do_exit_thread(SIGSYS);
        return true;
      }
      [[fallthrough]];
    default:
      die(SIGSYS, ctx.rip - 2, true);
  }
  if (log_.active() && log_.appender().events >= bs_record.next_checksum) take_memory_checksum();
  deliver_pending(0, 0);
  return true;
}

void Recorder::deny(uint64_t nr, const uint64_t args[6], int64_t result) {
  const Syscall& row = syscall_row(nr);
  while (log_.active() && !log_syscall(row, nr, args, result, recording::kDenied, false))
    if (!log_.reserve(bs_record.needed)) break;
  context().gpr[RAX] = static_cast<uint64_t>(result);
}

// SIGSYS, which cannot be put off: if it is blocked or ignored, the program dies of it.
void Recorder::trap(int nr, int detail) {
  Context& ctx = context();
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = SIGSYS;
  info.si_errno = detail;
  info.si_code = 1;  // SYS_SECCOMP
  info.si_call_addr = reinterpret_cast<void*>(ctx.rip);
  info.si_syscall = nr;
  info.si_arch = AUDIT_ARCH_X86_64;
  const bool blocked = process_.signals.mask >> (SIGSYS - 1) & 1;
  if (blocked || fate_of(process_.actions[SIGSYS], SIGSYS) != Fate::Handle) {
    cause_ = info;
    die(SIGSYS, ctx.rip, true);
  }
  log_signal(info, recording::kAsynchronous);
  enter_handler(info, TrapInfo{});
  set_real_action(SIGSYS);
  set_real_mask();
}

int64_t Recorder::do_seccomp(uint64_t operation, uint64_t flags, uint64_t address, const Syscall& row,
                             const uint64_t args[6]) {
  switch (static_cast<uint32_t>(operation)) {
    case SECCOMP_SET_MODE_STRICT:
      if (flags || address || process_.current().filters) return -EINVAL;
      process_.current().strict = bs_record.filtered = true;
      return 0;
    case SECCOMP_SET_MODE_FILTER:
      return add_filter(flags, address);
    case SECCOMP_GET_ACTION_AVAIL: {
      uint32_t action = 0;
      if (flags) return -EINVAL;
      if (!read_guest(address, &action)) return -EFAULT;
      return action == SECCOMP_RET_USER_NOTIF ? -EOPNOTSUPP : execute(row, SYS_seccomp, args);
    }
    default:
      return execute(row, SYS_seccomp, args);
  }
}

int64_t Recorder::add_filter(uint64_t flags, uint64_t address) {
  constexpr uint64_t kKnown = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG |
                              SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
  if (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER)
    note_once("a seccomp filter with a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER) was refused with EINVAL");
  if (flags & ~kKnown) return -EINVAL;
  struct {
    uint16_t length;
    uint64_t program;
  } given{};
  if (!read_guest(address, &given)) return -EFAULT;
  if (given.length == 0 || given.length > BPF_MAXINSNS) return -EINVAL;
  if (!may_install_filters()) return -EACCES;
  if (!given.program) return -EINVAL;
  Thread& me = process_.current();
  SeccompFilter fresh{std::vector<sock_filter>(given.length), me.filters};
  if (!bs_guarded_copy(fresh.program.data(), reinterpret_cast<const void*>(given.program),
                       given.length * sizeof(sock_filter)))
    return -EFAULT;
  if (int err = check_filter(fresh.program)) return -err;
  if (me.strict) return -EINVAL;
  if (int err = check_stack(fresh.program, me.filters)) return -err;
  const bool all = (flags & SECCOMP_FILTER_FLAG_TSYNC) && !vfork_;
  if (all)
    for (const auto& [name, thread] : process_.threads())
      if (thread->strict || !is_ancestor(thread->filters, me.filters))
        return flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH ? -ESRCH : thread->tid;
  me.filters = std::make_shared<const SeccompFilter>(std::move(fresh));
  if (all)
    for (const auto& [name, thread] : process_.threads()) thread->filters = me.filters;
  bs_record.filtered = true;
  tell_threads();
  return 0;
}

}  // namespace backstep::recorder
