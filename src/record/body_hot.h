// Kernel threads that wait for guest threads. Guest code runs on the first kernel thread of the process only;
// but a guest thread that blocks in the kernel needs somebody to block for it while others have the turn.
// Each guest thread has a *body* for that: it makes system calls on copies of the guest's buffers
// (scratch.h), never touches guest memory, runs no guest code, and lends the guest thread its tid, its entry
// in /proc and its name.
//
// Other kernel threads of ours are *seats*: places where the runner can be. A body and a seat sleep in the
// same way; the runner goes from one to another (move_runner), where descriptors, working directory and
// namespaces are those of the guest thread that has the turn (record_seats.cc).
#pragma once
#include <cstdint>

namespace backstep::recorder {

struct Body {
  enum Command : uint32_t { Nothing, Call, Leave, Start, Sit, Mask };
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
  // What it blocks when it is asked to do nothing, and in calls: what the guest thread does that it lends its
  // tid (Recorder::show_mask). Others block everything.
  uint64_t mask = ~0ull;
  uint32_t masked = 1;    // 0: it is to take that before anything else
  Body* other = nullptr;  // whom it is to start
};

// What bodies and signal handlers tell the thread that runs the guest.
struct Wakeups {
  uint32_t counter;  // grows with every event that the runner must look at; it sleeps on this word
  uint32_t idle;     // the runner sleeps
  int pid, runner;   // process and thread id of the runner
  uint32_t bodies;   // there may be kernel threads beside the runner
  uint32_t moved;   // the runner has been elsewhere: its signals may come to a kernel thread that it has left
  uint32_t passed;  // how many of bs_passed are there
  uint32_t crowded;  // there was no room: a signal waits at its kernel thread, which blocks it
  uint32_t ending;   // bodies that get kInterruptSignal block everything from now on …
  uint32_t quiet;    // … and so many do
  uint32_t waking;   // so many are in wake_runner() at this moment
  // Kernel threads to which a signal has come that is not for their guest thread: the call that it ended goes
  // on.
  int late[16];
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

// It blocks `mask` in a moment, and in all calls that it is asked for.
void take_mask_soon(Body& body, uint64_t mask);
// Asks the kernel thread of a body to block everything but faults and SIGTRAP, also while it is in a call.
// Wakeups::quiet counts those that do.
void quiet(const Body& body);

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

// `body` starts `other`, which has the same descriptors, working directory and namespaces. False: the kernel
// refuses.
bool start_by(Body& body, Body& other);

// The caller goes on in the kernel thread of another body, on the same stack; its own, `from`, sleeps as
// bodies do, on a stack that it must have (prepare_stack). Signals are blocked as in a body when this
// returns.
bool prepare_stack(Body& body);
void move_runner(Body& from, Body& to);

// What comes to a kernel thread that is not the runner, for the runner to take.
struct Passed {
  uint32_t state;      // kFree, kBeingWritten, kThere
  uint32_t timer;      // index of a timer of the guest's, if signo is 0
  int signo, overrun;  // else a signal …
  int from;            // … to this kernel thread, the body of a guest thread
  bool to_process;     // … and certainly not to that thread alone
  unsigned char info[128];
  enum : uint32_t { kFree, kBeingWritten, kThere };
};
inline constexpr unsigned kPassed = 64;
extern Passed bs_passed[kPassed];
// In its handler. False: there is no room.
bool pass_timer(uint32_t timer, int overrun);
bool pass_signal(int signo, const void* info, int from, bool to_process);
// By the runner, when it has what it wants of it.
void free_place(Passed& place);
// In the handler of a kernel thread: the call that it was in, if any, goes on.
void come_late(int tid);

// Makes the runner look around, from any thread.
void wake_runner();

}  // namespace backstep::recorder
