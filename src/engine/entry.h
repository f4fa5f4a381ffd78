// Assembler entry points (entry.S) and the functions that they call.
#pragma once
#include <cstdint>

namespace backstep::engine {

// Why the guest left the cache. Values are known to entry.S.
enum class Reason : uint32_t {
  Dispatch = 1,  // the host must find or translate Context::rip (rare: the hot world does it mostly)
  Syscall = 2,   // at a system call that the hot handler left to the host; rip is behind the instruction
  HostOp = 3,    // at an instruction that the host answers; rip is at it
  TickStop = 4,  // limit reached; rip is where execution goes on
  Fault = 5,     // a signal handler brought us here; see FaultInfo
};

}  // namespace backstep::engine

extern "C" {
// Enters the cache at Context::resume; returns the Reason when the host is needed.
uint32_t bs_enter();
// Continues as an exit with Reason::Fault on the host stack (set as RIP by the signal handler; the guest's
// state is in the context already).
void bs_fault_resume();

// Where a stop request cannot be noticed any more (entry.S).
void bs_resume_window();
void bs_resume_end();

// Places that translated code jumps to.
void bs_exit_branch();  // Context::exit: direct branch not linked
void bs_exit_miss();    // indirect branch, no landing known
void bs_exit_hostop();
void bs_exit_tick();
void bs_wide_lookup();  // indirect branch whose target may lie above layout::kDirectEnd
void bs_wide_lookup_end();
void bs_probe_lookup();  // indirect branch of debug code
void bs_exit_syscall();  // rcx: next pc, r11: where to continue

// Copies memory that may not be there; false then (part may have been copied). Usable in both worlds.
bool bs_guarded_copy(void* to, const void* from, unsigned long n);
bool bs_guarded_pair(void* to, uint64_t a, uint64_t b);  // 16 bytes
void bs_guarded_pair_end();
bool bs_guarded_load(uint64_t* to, const void* from, unsigned size);  // 1, 2, 4 or 8 bytes, zero-extended
void bs_guarded_load_end();
void bs_guarded_insn();
void bs_guarded_fail();

// A system call that a signal handler can call off (kNotMade) by moving rip from the window to
// bs_call_interrupted, and that is not made at all once `interrupt` is set.
long bs_call(long nr, const uint64_t arguments[6], const uint32_t* interrupt);
void bs_call_window();
void bs_call_end();
void bs_call_interrupted();
// clone(2) of a kernel thread that runs `body`, which must not return.
long bs_start_thread(unsigned long flags, void* stack, int* parent_tid, uint32_t* child_tid,
                     void (*body)(void*), void* argument);

// Hot handlers: return the cache address to continue at, with Context::rip the guest address that it stands
// for; 0: go to the host.
uint64_t bs_hot_branch();
uint64_t bs_hot_miss();
uint64_t bs_hot_hostop();
uint64_t bs_hot_syscall();
}
