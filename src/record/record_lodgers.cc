// Lodgers: processes that live in the memory of another one and run at the same time (clone with CLONE_VM,
// but neither CLONE_THREAD nor CLONE_VFORK). LeakSanitizer starts one, to stop all threads of its program and
// look into their registers.
//
// What shares memory must take turns, and belongs into one log: so a lodger's code runs as one more thread of
// the recorded process. In the kernel's eyes it is a process all the same: its body (body_hot.h) is one, made
// with the flags that the guest asked for. That body makes all calls of the lodger's, so that its pid,
// parent, descriptors and working directory, its exit and who waits for it are the real ones.
//
// A lodger that traces threads of the process it lives in (ptrace) cannot do so through the kernel, which
// knows none of them: those threads are held, which means they do not get the turn, and their registers are
// in our books.
#include <elf.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "guest/buffers.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::TurnReason;

namespace {

user_regs_struct registers_of(const Thread& t) {
  constexpr uint64_t kUserCode = 0x33, kUserData = 0x2b, kRestartCall = -512;
  user_regs_struct r{};
  r.rax = r.orig_rax = t.gpr[RAX];
  // The call has not begun for the thread itself, and will be made again.
  if (t.in_call)
    r.rax = kRestartCall;
  else
    r.orig_rax = ~0ull;
  r.rcx = t.gpr[RCX], r.rdx = t.gpr[RDX], r.rbx = t.gpr[RBX], r.rsp = t.gpr[RSP], r.rbp = t.gpr[RBP];
  r.rsi = t.gpr[RSI], r.rdi = t.gpr[RDI], r.r8 = t.gpr[R8], r.r9 = t.gpr[R9], r.r10 = t.gpr[R10];
  r.r11 = t.gpr[R11], r.r12 = t.gpr[R12], r.r13 = t.gpr[R13], r.r14 = t.gpr[R14], r.r15 = t.gpr[R15];
  r.rip = t.rip, r.eflags = t.rflags, r.cs = kUserCode, r.ss = kUserData;
  r.fs_base = t.fs_base, r.gs_base = t.gs_base;
  return r;
}

int stopped_by(int signo, int event = 0) {
  return (event << 8 | signo) << 8 | 0x7f;
}

}  // namespace

// A call of the lodger that has the turn; nullopt: as any other thread's.
std::optional<Recorder::Begun> Recorder::lodger_call(const Syscall& row, uint64_t nr, const uint64_t args[6],
                                                     int64_t& result) {
  auto done = [&](int64_t r, bool buffers = true) {
    log_call(row, nr, args, result = r, buffers);
    return Begun::Done;
  };
  switch (nr) {
    case SYS_exit:
    case SYS_exit_group:
      end_lodger(static_cast<int>(args[0]) & 0xff, false);
      return Begun::Blocked;
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_execve:
    case SYS_execveat:
      note_once(fmt::format("{} called {}: EAGAIN", kLodgers, row.name));
      return done(-EAGAIN, false);
    case SYS_wait4:
      if (auto r = wait_for_traced(args)) return done(*r);
      return wait_in_kernel(row, nr, args, result);
    case SYS_sched_yield:
    case SYS_futex:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
    case SYS_clock_gettime:
      return std::nullopt;
    default:
      if (row.traits & kMayBlock) return wait_in_kernel(row, nr, args, result);
      return Begun::NotMine;
  }
}

// Status below 0: the signal that it dies of.
void Recorder::end_lodger(int status, bool between) {
  Task& task = turns_.current();
  Thread& thread = *task.thread;
  if (!between) {
    leave_robust_list(thread);
    if (thread.clear_child_tid && poke(thread.clear_child_tid, 0)) wake_futex(thread.clear_child_tid, 1, ~0u);
  }
  release_traced(task);
  // At once: the next one to have the turn may be who waits for its end.
  task.body->status = status;
  task.lost = true;
  end_body(*task.body);
  thread.in_call = !between;
  pass_turn(TurnReason::Ended, between);
}

// What it does about signals is up to the kernel, as far as that needs no handler: those with one do not
// reach it from outside.
bool Recorder::lodger_action(int signo) {
  const Thread& thread = process_.current();
  if (!thread.lodger || thread.own_actions.empty()) return false;
  if (is_synchronous(signo)) return true;
  KernelSigaction real{};
  real.handler = process_.actions[signo].handler == 0 ? 0 : 1;
  const uint64_t args[6] = {static_cast<uint64_t>(signo), reinterpret_cast<uint64_t>(&real), 0, 8};
  call_now(*turns_.current().body, SYS_rt_sigaction, args);
  return true;
}

void Recorder::lodger_mask(uint64_t mask) {
  const uint64_t args[6] = {SIG_SETMASK, reinterpret_cast<uint64_t>(&mask), 0, 8};
  call_now(*turns_.current().body, SYS_rt_sigprocmask, args);
}

// Bodies that somebody has killed.
void Recorder::drop_lost_lodgers() {
  for (auto& [name, task] : turns_.tasks()) {
    if (!task->thread || !task->thread->lodger || task->lost ||
        __atomic_load_n(&task->body->alive, __ATOMIC_SEQ_CST))
      continue;
    task->lost = true;
    release_traced(*task);
    turns_.drop(*task);
    if (task.get() == &turns_.current()) bs_record.turn_request = true;
  }
}

// The process ends or becomes another program. (Natively they would stay, with the old memory.)
void Recorder::kill_lodgers() {
  for (auto& [name, task] : turns_.tasks())
    if (task->thread && task->thread->lodger && !task->lost) ::kill(task->body->pid, SIGKILL);
}

// What a descriptor of the current one, which has its own, stands for.
Fd Recorder::file_of_lodger(int fd) {
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, turns_.current().body->pid, 0)));
  return Fd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
}

bool Recorder::has_own_files_as_lodger() const {
  return turns_.current().thread && turns_.current().thread->lodger && turns_.current().table;
}

// --- ptrace of threads by a lodger ---

void Recorder::release_traced(const Task& tracer) {
  for (auto& [name, task] : turns_.tasks()) {
    if (task->tracer != &tracer) continue;
    task->tracer = nullptr;
    task->stop = 0;
    if (task->held) turns_.let_go(*task);
  }
}

// nullopt: none of our threads is meant.
std::optional<int64_t> Recorder::trace_thread(const uint64_t args[6]) {
  Task& me = turns_.current();
  if (!process_.current().lodger) return std::nullopt;
  Task* task = turns_.by_tid(static_cast<int>(args[1]));
  if (!task || task == &me || task->thread->lodger) return std::nullopt;
  const uint64_t request = args[0], data = args[3];
  auto stop = [&](int status) {
    if (!task->held) {
      turns_.hold(*task);
      task->stop = status;
    }
    return 0;
  };
  if (request == PTRACE_ATTACH || request == PTRACE_SEIZE) {
    if (task->tracer) return -EPERM;
    task->tracer = &me;
    return request == PTRACE_ATTACH ? stop(stopped_by(SIGSTOP)) : 0;
  }
  if (task->tracer != &me) return -ESRCH;
  if (request == PTRACE_INTERRUPT) return stop(stopped_by(SIGTRAP, PTRACE_EVENT_STOP));
  if (!task->held) return -ESRCH;
  const Thread& t = *task->thread;
  auto give = [&](uint64_t to, const void* from, uint64_t size) -> int64_t {
    if (!process_.writable(to, size)) return -EFAULT;
    std::memcpy(reinterpret_cast<void*>(to), from, size);
    return 0;
  };
  constexpr uint64_t kFxsave = 512;
  switch (request) {
    case PTRACE_DETACH:
    case PTRACE_CONT:
      if (request == PTRACE_DETACH) task->tracer = nullptr;
      task->stop = 0;
      turns_.let_go(*task);
      return 0;
    case PTRACE_SETOPTIONS:
      return 0;
    case PTRACE_PEEKTEXT:
    case PTRACE_PEEKDATA: {
      uint64_t word;
      if (!read_guest(args[2], &word)) return -EIO;
      return give(data, &word, sizeof word);
    }
    case PTRACE_GETREGS: {
      const user_regs_struct registers = registers_of(t);
      return give(data, &registers, sizeof registers);
    }
    case PTRACE_GETFPREGS:
      return give(data, t.xsave, kFxsave);
    case PTRACE_GETREGSET: {
      iovec where{};
      const user_regs_struct registers = registers_of(t);
      const void* from = args[2] == NT_PRSTATUS ? static_cast<const void*>(&registers) : t.xsave;
      const uint64_t size = args[2] == NT_PRSTATUS     ? sizeof registers
                            : args[2] == NT_PRFPREG    ? kFxsave
                            : args[2] == NT_X86_XSTATE ? sizeof t.xsave
                                                       : 0;
      if (size == 0) return -EINVAL;
      if (!read_guest(data, &where)) return -EFAULT;
      where.iov_len = std::min<uint64_t>(where.iov_len, size);
      if (int64_t err = give(reinterpret_cast<uint64_t>(where.iov_base), from, where.iov_len)) return err;
      return give(data, &where, sizeof where);
    }
    default:
      note_once(
          fmt::format("{} traced threads of its parent in a way that is not supported (ptrace {:#x}): EIO",
                      kLodgers, request));
      return -EIO;
  }
}

// nullopt: for none of those.
std::optional<int64_t> Recorder::wait_for_traced(const uint64_t args[6]) {
  const auto pid = static_cast<int>(args[0]);
  for (auto& [name, task] : turns_.tasks()) {
    if (task->tracer != &turns_.current() || (pid != -1 && pid != task->thread->tid)) continue;
    if (!task->stop) {
      if (pid == -1) continue;
      // Nothing that it waits for can happen while it is held, or without our help.
      return args[2] & WNOHANG ? 0 : -ECHILD;
    }
    if (args[1]) {
      if (!process_.writable(args[1], 4)) return -EFAULT;
      std::memcpy(reinterpret_cast<void*>(args[1]), &task->stop, 4);
    }
    if (args[3]) {
      const rusage none{};
      if (!process_.writable(args[3], sizeof none)) return -EFAULT;
      std::memcpy(reinterpret_cast<void*>(args[3]), &none, sizeof none);
    }
    task->stop = 0;
    return task->thread->tid;
  }
  return std::nullopt;
}

}  // namespace backstep::recorder
