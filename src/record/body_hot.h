// Kernel threads that wait for guest threads. Guest code runs on the first kernel thread of the process only;
// but a guest thread that blocks in the kernel needs somebody to block for it while others have the turn.
// Each guest thread has a *body* for that: it makes system calls on copies of the guest's buffers
// (scratch.h), never touches guest memory, runs no guest code, and lends the guest thread its tid, its entry
// in /proc and its name.
#pragma once
#include <cstdint>

namespace backstep::recorder {

struct Body {
  enum Command : uint32_t { Nothing, Call, Leave };
  uint32_t command = Nothing;  // the body sleeps on this word
  uint32_t busy = 0;           // a call is under way; its result is there when this is 0 again
  uint32_t interrupt = 0;      // the call is to be called off
  uint32_t alive = 0;          // zeroed by the kernel when the thread is gone
  int tid = 0;
  int pid = 0;        // of a lodger's body, which is a process; 0: it is a thread of ours
  int status = 0;     // … what it exits with; below 0: the signal that it dies of
  long call[7] = {};  // number and arguments
  long result = 0;
  void* stack = nullptr;  // lowest address
};

// What bodies and signal handlers tell the thread that runs the guest.
struct Wakeups {
  uint32_t counter;  // grows with every event that the runner must look at; it sleeps on this word
  uint32_t idle;     // the runner sleeps
  int pid, runner;   // process and thread id of the runner
};
extern Wakeups bs_wakeups;

// Signals of our own use SIGTRAP, which is never blocked, with si_code SI_QUEUE or SI_TIMER and one of these.
inline constexpr uint64_t kTurnSignal = 0x6b63'6261'0000'0001;        // to the runner: look around
inline constexpr uint64_t kInterruptSignal = 0x6b63'6261'0000'0002;   // to a body: leave the call
inline constexpr uint64_t kCheckpointSignal = 0x6b63'6261'0000'0004;  // to the runner: time for a checkpoint
inline constexpr uint64_t kLookSignal =
    0x6b63'6261'0000'0005;  // to the runner: it may have company (record_segments.cc)
inline constexpr uint64_t kTimerSignal =
    0x6b63'6261'8000'0000;  // to the runner: a timer of the guest's (+ index)

// Starts the kernel thread; all its signals but faults and SIGTRAP are blocked. False: the kernel refuses.
bool start_body(Body& body);
// Likewise, as a process in our memory. `flags` are the guest's for clone. Its pid or -errno.
long start_lodger(Body& body, uint64_t flags, uint64_t blocked_signals);
// Makes a call that does not wait, on the guest's own buffers. The body of a lodger may be killed: -EINTR
// then.
long call_now(Body& body, uint64_t nr, const uint64_t args[6]);
void begin_call(Body& body, uint64_t nr, const uint64_t args[6]);
void interrupt_call(Body& body);
void end_body(Body& body);
void free_stack(Body& body);  // after its thread is gone

// Makes the runner look around, from any thread.
void wake_runner();

}  // namespace backstep::recorder
