// ptrace by the program: a debugger or a tracer is being recorded.
//
// What is traced cannot be recorded at the same time: its tracer would see our signals, our system calls and
// our memory. So a child that asks to be traced (PTRACE_TRACEME, which debuggers do between fork and execve)
// leaves the recording and runs natively from that call on. The tracer, which is recorded, then meets the
// program that it would have met without us, and all that it learns comes to it by system calls, which are
// logged like any others.
//
// Natively means: the same memory, now with the right to execute it, the same registers, the guest's signal
// actions given to the kernel. A child of vfork shares its parent's memory, whose changes must be logged; it
// stays with us until its execve, which is then not followed.
//
// Attaching to a process that is recorded is refused.
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "record/departure_hot.h"
#include "record/proc_files.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::Birth;
using recording::EndKind;

int64_t Recorder::do_ptrace(const Syscall& row, const uint64_t args[6]) {
  const auto pid = static_cast<int>(args[1]);
  if (auto traced = trace_thread(args)) {
    log_call(row, SYS_ptrace, args, *traced);
    return *traced;
  }
  int64_t result;
  switch (args[0]) {
    case PTRACE_TRACEME:
      result = do_traceme(row, args);
      break;
    case PTRACE_ATTACH:
    case PTRACE_SEIZE:
      if (is_recorded(pid)) {
        note_once(
            "the program tried to trace a process that is recorded (ptrace); this was refused with EPERM");
        result = -EPERM;
        break;
      }
      [[fallthrough]];
    default:
      result = execute(row, SYS_ptrace, args);
      break;
  }
  log_call(row, SYS_ptrace, args, result);
  return result;
}

int64_t Recorder::do_traceme(const Syscall& row, const uint64_t args[6]) {
  if (traced_) return -EPERM;
  if (vfork_) {
    note_once("a child of vfork asked to be traced (ptrace): its next program was not recorded");
    traced_ = true;
    return 0;
  }
  if (origin_.birth != Birth::Fork || process_.threads().size() > 1) {
    // Debuggers do it in a fork of their own. Whoever asks at other times wants to know whether he is traced.
    note_once(
        "the program asked to be traced (ptrace) after it was started: it was told that it is, and was "
        "recorded on");
    traced_ = true;
    return 0;
  }
  log_call(row, SYS_ptrace, args, 0);
  context().gpr[RAX] = 0;
  go_native();
}

void Recorder::go_native() {
  become_outsider();
  published_.set_state(PublishedHead::Native);
  if (!detached_) {
    log_.stop("the process asked to be traced (ptrace)");
    close_recording(EndKind::Stopped, 0, context().rip);
  }
  if (series_) end_checkpoints("the process asked to be traced (ptrace)");
  const uint64_t all = ~0ull;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, 8);
  process_.map.for_each([](const Region& r) {
    mprotect(reinterpret_cast<void*>(r.start), r.end - r.start,
             r.prot & (PROT_READ | PROT_WRITE | PROT_EXEC));
  });
  // Signals that have come to us and not to the guest yet come again.
  for (unsigned i = 0; i < bs_record.pending_count; i++)
    syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), bs_record.pending[i].si_signo, &bs_record.pending[i]);
  for (int signo = 1; signo <= kSignals; signo++)
    if (signo != SIGKILL && signo != SIGSTOP)
      syscall(SYS_rt_sigaction, signo, &process_.actions[signo], nullptr, 8);
  if (!shares_files_)
    for (int fd : bs_record.our_fds)
      if (fd >= 0) ::close(fd);
  const Thread& me = process_.current();
  syscall(SYS_set_tid_address, me.clear_child_tid);
  syscall(SYS_set_robust_list, me.robust_list, 24);

  Context& ctx = context();
  constexpr uint64_t kRestorer = 0x0400'0000;
  const KernelSigaction never{ctx.rip, kRestorer, ctx.rip, 0};
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  if (!process_.push_frame(never, SIGTRAP, info)) die(SIGSEGV, ctx.rip);
  ptrace(PTRACE_TRACEME, 0, 0, 0);
  hand_to_kernel(process_.limits);
  hand_to_kernel(me.filters);
  leave_by_frame(ctx.gpr[RSP] + 8, ctx.fs_base, ctx.gs_base);
}

}  // namespace backstep::recorder
