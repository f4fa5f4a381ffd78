// A thread of the guest. All threads of a process are contexts that take turns on one kernel thread, when
// recording as well as in replay: the one that has the turn has its registers in engine/context.h and its
// signal state in Process::signals; the others keep theirs here.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/context.h"
#include "guest/seccomp.h"
#include "guest/signal_frame.h"

namespace backstep::guest {

struct Thread {
  int name = 1;  // virtual name: 1 is the first thread, then in the order of creation
  int tid = 0;   // the kernel's, as it was in the recorded run
  // Stands behind a system-call instruction whose call has no result yet.
  bool in_call = false;
  uint64_t clear_child_tid = 0;  // CLONE_CHILD_CLEARTID, set_tid_address: zeroed and woken when it ends
  uint64_t robust_list = 0;
  // What it may not call (recording only: a replay has the answers in its log). `strict`: nearly nothing.
  SeccompFilters filters;
  bool strict = false;
  // Instructions that raise SIGSEGV (recording only, likewise): PR_SET_TSC, ARCH_SET_CPUID.
  static constexpr uint8_t kTrapTsc = 1, kTrapCpuid = 2;
  uint8_t trapped = 0;
  // A process of its own that lives in this one's memory, see is_lodger().
  bool lodger = false;
  // What it does about signals, if that is not what the process does; while another has the turn.
  std::vector<KernelSigaction> own_actions;

  // Valid while another thread has the turn.
  uint64_t gpr[16] = {};
  Address rip = 0;
  uint64_t rflags = 0x202;
  uint64_t fs_base = 0, gs_base = 0;
  SignalState signals;
  alignas(64) unsigned char xsave[kXsaveSize] = {};
};

// clone with CLONE_VM, but neither CLONE_THREAD nor CLONE_VFORK: a new process which shares memory with its
// parent and runs at the same time. For us it is one more thread, and a process in the eyes of the kernel
// only.
bool is_lodger(uint64_t clone_flags);

}  // namespace backstep::guest
