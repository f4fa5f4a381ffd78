// What a process asks the kernel about itself, or has it change: prctl, arch_prctl, robust lists. Most of it
// the kernel knows better than we; the rest is here. Some attributes belong to a thread, which for the kernel
// is the runner; some are about memory or instructions, which for the kernel are ours and not the guest's.
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "guest/buffers.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

constexpr int kSetMdwe = 65, kGetMdwe = 66;              // PR_SET_MDWE, since Linux 6.3
constexpr uint64_t kRefuseExecGain = 1, kNoInherit = 2;  // PR_MDWE_*

}  // namespace

// The guest's program headers and so on, not ours.
int64_t Recorder::do_get_auxv(const uint64_t args[6]) {
  if (args[3] || args[4]) return -EINVAL;
  // The kernel has room for so many, and tells all of it.
  constexpr uint64_t kMost = 1024;
  uint64_t real[kMost / 8];
  const int64_t size = prctl(kGetAuxv, real, sizeof real, 0, 0);
  if (size < 0) return -errno;
  std::vector<uint64_t> words(static_cast<size_t>(size) / 8, 0);
  std::copy_n(start_.auxv.begin(), std::min(start_.auxv.size(), words.size()), words.begin());
  const uint64_t n = std::min(args[2], static_cast<uint64_t>(size));
  return n && !process_.copy_out(args[1], words.data(), n) ? -EFAULT : size;
}

// To the kernel the code is the recorder's, which it writes all the time.
int64_t Recorder::do_set_mdwe(const uint64_t args[6]) {
  if (prctl(kGetMdwe, 0, 0, 0, 0) < 0) return -errno;  // too old
  const uint64_t bits = args[1];
  if (args[2] || args[3] || args[4] || bits > (kRefuseExecGain | kNoInherit) || bits == kNoInherit)
    return -EINVAL;
  if (mdwe_ && mdwe_ != bits) return -EPERM;
  mdwe_ = static_cast<uint8_t>(bits);
  return 0;
}

bool Recorder::may_be_executable(uint64_t start, uint64_t end, uint64_t prot) const {
  if (!mdwe_ || !(prot & PROT_EXEC)) return true;
  if (prot & PROT_WRITE) return false;
  for (const Region* r = process_.map.next(start); r && r->start < end; r = process_.map.next(r->end))
    if (!(r->prot & PROT_EXEC)) return false;
  return true;
}

int64_t Recorder::do_prctl(const Syscall& row, const uint64_t args[6]) {
  int64_t result;
  Thread& me = process_.current();
  switch (static_cast<int>(args[0])) {
    case PR_SET_SECCOMP:
      result = args[1] == SECCOMP_MODE_STRICT   ? do_seccomp(SECCOMP_SET_MODE_STRICT, 0, 0, row, args)
               : args[1] == SECCOMP_MODE_FILTER ? add_filter(0, args[2])
                                                : -EINVAL;
      break;
    case PR_GET_SECCOMP:
      result = me.filters ? SECCOMP_MODE_FILTER : execute(row, SYS_prctl, args);
      break;
    case PR_SET_MM:
      result = do_set_mm(row, args);
      break;
    case kGetAuxv:
      result = do_get_auxv(args);
      break;
    case kSetMdwe:
      result = do_set_mdwe(args);
      break;
    case kGetMdwe:
      result = execute(row, SYS_prctl, args);
      if (result == 0) result = mdwe_;
      break;
    case PR_GET_TSC: {
      const uint32_t mode = me.trapped & Thread::kTrapTsc ? PR_TSC_SIGSEGV : PR_TSC_ENABLE;
      result = process_.writable(args[1], sizeof mode) && process_.copy_out(args[1], &mode, sizeof mode)
                   ? 0
                   : -EFAULT;
      break;
    }
    case PR_SET_TSC:
      // To the kernel the instruction is the recorder's.
      result = args[1] == PR_TSC_ENABLE || args[1] == PR_TSC_SIGSEGV ? 0 : -EINVAL;
      if (result == 0) trap(Thread::kTrapTsc, args[1] == PR_TSC_SIGSEGV);
      break;
    case PR_SET_SYSCALL_USER_DISPATCH:
      // It would be about the recorder's calls. Kernels of other machines do not have it.
      result = args[1] == PR_SYS_DISPATCH_OFF && !args[2] && !args[3] && !args[4] ? 0 : -EINVAL;
      if (args[1] != PR_SYS_DISPATCH_OFF)
        note_once("prctl(PR_SET_SYSCALL_USER_DISPATCH) was answered with EINVAL");
      break;
    case PR_GET_TID_ADDRESS:  // the kernel knows the runner's only
      result = -EFAULT;
      if (process_.writable(args[1], 8)) {
        result = 0;
        std::memcpy(reinterpret_cast<void*>(args[1]), &me.clear_child_tid, 8);
      }
      break;
    case PR_CAPBSET_DROP:
    case PR_SET_SECUREBITS:
      if (!detached_) keep_folder();  // execve will take rights away
      [[fallthrough]];
    case PR_SET_KEEPCAPS:
    case PR_CAP_AMBIENT:
    case PR_SET_NO_NEW_PRIVS:
      result = execute(row, SYS_prctl, args);
      if (result == 0) call_in_body(SYS_prctl, args);
      break;
    case PR_SET_CHILD_SUBREAPER:
      if (args[1]) tree_.set(recording::Tree::kReaper);
      [[fallthrough]];
    default:
      result = execute(row, SYS_prctl, args);
      break;
  }
  log_call(row, SYS_prctl, args, result);
  return result;
}

void Recorder::trap(uint8_t what, bool on) {
  Thread& me = process_.current();
  me.trapped = static_cast<uint8_t>(on ? me.trapped | what : me.trapped & ~what);
  bs_record.trapped = me.trapped != 0;
}

// Does this instruction, which the guest may not execute just so, raise a fault in this thread?
bool Recorder::is_trapped(engine::HostOp op) {
  switch (op) {
    case engine::HostOp::Rdtsc:
    case engine::HostOp::Rdtscp:
      return process_.current().trapped & Thread::kTrapTsc;
    case engine::HostOp::Cpuid:
      return process_.current().trapped & Thread::kTrapCpuid;
    default:
      return false;
  }
}

int64_t Recorder::do_arch_prctl(const Syscall& row, const uint64_t args[6]) {
  constexpr int kGetCpuid = 0x1011, kSetCpuid = 0x1012, kGetSupported = 0x1021, kGetPermitted = 0x1022,
                kRequest = 0x1023, kGetGuestPermitted = 0x1024, kRequestGuest = 0x1025, kMapVdsoX32 = 0x2001,
                kMapVdso64 = 0x2003;
  auto logged = [&](int64_t result, bool buffers) {
    log_call(row, SYS_arch_prctl, args, result, buffers);
    return result;
  };
  if (Process::is_base_prctl(args[0])) return logged(process_.sys_arch_prctl(args[0], args[1]), false);
  uint64_t real[6];
  std::copy(args, args + 6, real);
  switch (const int code = static_cast<int>(args[0])) {
    case kGetCpuid:
      return logged(process_.current().trapped & Thread::kTrapCpuid ? 0 : 1, false);
    case kSetCpuid: {
      real[1] = 1;  // as it is: the answer says whether the CPU could
      const int64_t result = hot::syscall(SYS_arch_prctl, real);
      if (result == 0) trap(Thread::kTrapCpuid, args[1] == 0);
      return logged(result, false);
    }
    case kGetSupported:
    case kGetPermitted:
    case kGetGuestPermitted: {
      uint64_t mask = 0;
      real[1] = reinterpret_cast<uint64_t>(&mask);
      if (const int64_t result = hot::syscall(SYS_arch_prctl, real)) return logged(result, false);
      mask &= process_.xcr0;
      if (!process_.writable(args[1], sizeof mask)) return logged(-EFAULT, false);
      std::memcpy(reinterpret_cast<void*>(args[1]), &mask, sizeof mask);
      return logged(0, true);
    }
    case kRequest:
    case kRequestGuest: {
      constexpr uint64_t kTileConfig = 17, kTileData = 18;  // not shown
      const bool hidden = args[1] == kTileConfig || args[1] == kTileData;
      return logged(hidden ? -EOPNOTSUPP : hot::syscall(SYS_arch_prctl, args), false);
    }
    default:
      // A second vDSO is refused, as there is one. Shadow stacks and tagged addresses are not offered.
      return logged(code >= kMapVdsoX32 && code <= kMapVdso64 ? hot::syscall(SYS_arch_prctl, args) : -EINVAL,
                    false);
  }
}

int64_t Recorder::do_get_robust_list(const uint64_t args[6]) {
  const auto tid = static_cast<int>(args[0]);
  uint64_t head = process_.current().robust_list;
  if (tid != 0 && tid != process_.current().tid) {
    Task* task = turns_.by_tid(tid);
    // Of other processes the kernel knows only that they are there.
    if (!task) return tid > 0 && (::kill(tid, 0) == 0 || errno == EPERM) ? -EPERM : -ESRCH;
    head = task->thread->robust_list;
  }
  constexpr uint64_t kLength = 24;
  if (!process_.writable(args[2], 8)) return -EFAULT;
  std::memcpy(reinterpret_cast<void*>(args[2]), &kLength, 8);
  if (!process_.writable(args[1], 8)) return -EFAULT;
  std::memcpy(reinterpret_cast<void*>(args[1]), &head, 8);
  return 0;
}

}  // namespace backstep::recorder
