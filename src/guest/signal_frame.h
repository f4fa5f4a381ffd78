// Signal delivery into the guest: builds the kernel's rt_sigframe on the guest stack (or its alternate
// stack) and takes it down again in rt_sigreturn. Byte layout as in the kernel for x86-64, with the vector
// state that the guest may see (x87, SSE, AVX, AVX-512) in standard XSAVE form.
#pragma once
#include <csignal>
#include <cstdint>
#include <functional>

#include "engine/context.h"

namespace backstep::guest {

struct KernelSigaction {  // struct kernel_sigaction of x86-64
  uint64_t handler;       // SIG_DFL 0, SIG_IGN 1
  uint64_t flags;         // SA_*, incl. SA_RESTORER 0x04000000
  uint64_t restorer;
  uint64_t mask;
};

struct AltStack {
  uint64_t sp = 0;
  int flags = 2 /*SS_DISABLE*/;
  uint64_t size = 0;
};

// Per-thread signal state of the guest.
struct SignalState {
  uint64_t mask = 0;  // bit n-1: signal n blocked
  AltStack alt;
  // rt_sigsuspend, ppoll, pselect, epoll_pwait: `mask` is the call's temporary one, and `saved_mask` is what
  // the frame of the first handler (or, without one, the caller) goes back to.
  bool restore_mask = false;
  uint64_t saved_mask = 0;
};

// CPU trap details for sigcontext (err, trapno, cr2).
struct TrapInfo {
  uint64_t err = 0, trapno = 0, cr2 = 0;
};

// Whether host code may touch [addr, addr + size) of guest memory for reading or writing: wholly mapped in
// the guest's memory map with that protection. Must stand any addr and size.
using MemoryCheck = std::function<bool(uint64_t addr, uint64_t size)>;

// Writes the frame and changes `ctx` (registers, rip, rsp, flags, vector state: handlers start with the
// initial one) and `state` (mask, restore_mask, SS_AUTODISARM) as the kernel does. `xcr0` is the
// guest-visible feature mask (7 with AVX, 3 without, 0xe7 for a guest that uses AVX-512; it may grow during a
// run, not shrink); ctx.xsave is in standard format and may have XSTATE_BV bits clear (= initial state), but
// its MXCSR field must always hold the guest's MXCSR, as XSAVE and XSAVEOPT leave it (XSAVEC does not).
// Components outside xcr0 are left alone. False: the frame does not fit on the stack (unwritable), or the
// action has no SA_RESTORER -> SIGSEGV instead; nothing was changed.
bool push_signal_frame(Context& ctx, SignalState& state, const KernelSigaction& action, int signo,
                       const siginfo_t& info, const TrapInfo& trap, uint64_t xcr0,
                       const MemoryCheck& writable);

// rt_sigreturn: ctx.gpr[RSP] points behind the return address of the frame, as at the system call. Restores
// registers (rax included), rip, user-changeable flags, mask, alternate stack and vector state.
// False: bad frame -> SIGSEGV; nothing was changed.
bool pop_signal_frame(Context& ctx, SignalState& state, uint64_t xcr0, const MemoryCheck& readable);

}  // namespace backstep::guest
