// Kernel threads that stop working for us and become what the program's threads are, for the kernel's eyes:
// each takes the registers of its guest thread and rests. Nothing of the guest is executed.
#pragma once
#include <ucontext.h>

#include <csignal>
#include <cstdint>

namespace backstep::recorder {

struct Departure {
  int tid = 0;
  uint64_t frame = 0;  // of a signal handler that never ran, behind its return address: has all registers
  uint64_t fs_base = 0, gs_base = 0;
  int signo = 0;  // it dies of this one, when the runner has let it; 0: it rests
  siginfo_t info{};
};

struct Departures {
  Departure* list;  // of bodies; null: nobody leaves
  unsigned count;
  uint32_t gone;  // how many have taken notice
  uint32_t go;    // who dies may do so
};
extern Departures bs_departures;

inline constexpr uint64_t kDepartSignal = 0x6b63'6261'0000'0006;  // to a body, as those in body_hot.h

// In a body's signal handler, which returns to the guest's registers.
void depart(ucontext_t& uc);

extern "C" {
// Goes on with the registers of frame r12, FS base r13, GS base r14. Not to be called.
void bs_leave_by_frame();
// Sleeps until it is killed.
void bs_rest();
}

// The calling thread itself.
[[noreturn]] inline void leave_by_frame(uint64_t frame, uint64_t fs_base, uint64_t gs_base) {
  register uint64_t sp asm("r12") = frame;
  register uint64_t fs asm("r13") = fs_base;
  register uint64_t gs asm("r14") = gs_base;
  asm volatile("jmp bs_leave_by_frame" ::"r"(sp), "r"(fs), "r"(gs) : "memory");
  __builtin_unreachable();
}

}  // namespace backstep::recorder
