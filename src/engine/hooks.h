// What the engine asks of its client, in the hot world. Function pointers, set once before the guest runs.
#pragma once
#include "engine/context.h"
#include "isa/decode.h"

namespace backstep::engine {

enum class SignalVerdict {
  Later,  // nothing to do now
  Stop,   // leave the guest at its next instruction boundary (Stop::Signal, exact)
  Leave,  // leave it where it is (Stop::Signal, inexact): it will not run again
};

struct Hooks {
  // A system call is at hand (rip is behind it, rax holds the number). True: done, rax is the result and the
  // guest goes on; false: nothing was done, the host is asked (Reason::Syscall).
  bool (*syscall_hot)(Context&);
  // An instruction that the host answers is at rip. True: done (rip and registers advanced).
  bool (*host_op_hot)(Context&, const isa::Insn&);
  // A signal that is not a fault of the guest's code: asynchronous, or a fault in host code.
  // `in_guest`: it interrupted cache code.
  SignalVerdict (*signal_hot)(int signo, void* info, void* ucontext, bool in_guest);
  // The guest is about to execute the instruction at rip, where `what` is asked (ask_at). False: done, it
  // goes on; true: nothing was done, the host is asked (Stop::Break).
  bool (*reached_hot)(Context&, const void* what);
};
extern Hooks bs_hooks;

// What a signal handler found when a fault took the guest out of the cache.
inline constexpr uint64_t kWriteFault = 2;  // in the error code of a page fault
struct FaultInfo {
  int signo;
  int code;          // si_code
  uint64_t address;  // si_addr
  uint64_t error;    // page fault error code, trap number, cr2 as in the sigcontext
  uint64_t trapno;
  uint64_t cr2;
  uint32_t cache_pc;   // where in the cache; 0: asynchronous
  bool exact = false;  // asynchronous: rip and registers are exact
};
extern FaultInfo bs_fault_info;
// The fault of an indirect branch (its lookup at `cache_pc`) to something that is not an address.
FaultInfo no_address(uint32_t cache_pc);

}  // namespace backstep::engine
