// The recorder's hot half: executes and logs the system calls that the table describes completely, and the
// instructions with results from outside. Everything else goes to recorder.cc.
#pragma once
#include <csignal>
#include <cstdint>

#include "engine/context.h"
#include "engine/hooks.h"
#include "guest/cpu.h"
#include "guest/syscall_table.h"
#include "isa/decode.h"
#include "record/body_hot.h"
#include "record/shared_memory.h"
#include "recording/log_writer.h"

namespace backstep::recorder {

inline constexpr int kTrackedFds = 4096;
inline constexpr unsigned kPendingSignals = 64;
inline constexpr uint8_t kFdFolder = 0x80;  // fd_kind: a listing of our own descriptors (/proc/self/fd)
inline constexpr uint8_t kFdProc = 0x20;    // fd_kind: in /proc
inline constexpr uint8_t kFdTasks = 0x10;   // fd_kind: a listing of our own threads (/proc/self/task)
inline constexpr uint8_t kFdMaps = 0x04;    // fd_kind: /proc/PID/maps as we show it
inline constexpr uint8_t kFdMemory = 0x08;  // fd_kind: /proc/self/mem, to be written
inline constexpr uint8_t kFdFile = 0x40;    // fd_kind: a regular file or directory: never blocks
inline constexpr unsigned kTimerHits = 64;
inline constexpr unsigned kOurFds = 4;
// Which is which: the log, our copy of stderr, the queue of inotify, the folder of the recording.
inline constexpr int kLogFd = 0, kStderrFd = 1, kQueueFd = 2, kFolderFd = 3;

struct HotState {
  recording::Appender* log;
  guest::CpuLevel cpu;
  uint64_t xcr0;
  int our_fds[kOurFds];  // descriptors that the guest must not touch; -1: none
  int crowded_from;  // a descriptor of the guest's with this number, or a higher one, is too near to them …
  bool crowded;      // … and there is one (record_descriptors.cc)
  uint8_t
      fd_kind[kTrackedFds];  // EventFlag kToStdout / kToStderr for descriptors of the first stdout / stderr
  bool shared_files;  // some file is mapped shared, or /proc/self/mem is open: calls that change files need a
                      // look
  long (*vdso_clock_gettime)(int, void*);  // null: none

  // A call that was executed but not logged (no room), or executed and logged with signals to deliver next.
  bool executed, logged;
  int64_t result;
  uint64_t needed;         // bytes that the event takes
  uint64_t old_counts[6];  // counts in guest memory before the call (socklen_t …)

  uint64_t next_checksum;  // event number from which on a memory checksum is due (--check=deep)

  // Asynchronous signals that arrived and are not delivered to the guest yet.
  siginfo_t pending[kPendingSignals];
  volatile unsigned pending_count;
  uint64_t fatal_mask;    // bit n-1: the guest's disposition of signal n is to die of it
  uint64_t ignored_mask;  // … to ignore it, though our handler is there (faults, which anybody may send)
  // A signal has come, the guest's or one of ours, and was not looked at yet: no call may go to sleep now.
  volatile uint32_t attention;

  // More than one thread has been started: calls that may block or that ask who is calling need a look.
  bool threads;
  bool sharing;                 // some shared memory has owners by page: calls need a look at their buffers
  volatile bool share_request;  // another process wants a page of ours
  volatile bool outsider;       // somebody has opened a file that we have mapped shared
  const uint64_t* tree_files;   // files that processes of the recording have mapped shared
  // The order of all processes (recording/format.h).
  const uint64_t* tree_numbers;  // low half: how many logs there are
  uint64_t* orders;              // the counter
  uint64_t* writers[2];          // who writes to stdout, stderr (recording/tree.h)
  uint64_t me;                   // … as this one: its pid, and the number of its log below
  uint64_t given;                // the number that the call under way has taken before it was made; 0: none
  const uint32_t* letters;       // not 0: other processes write to our memory (letters.h); null: none can
  bool no_leave;                 // fatal signals, too, must find an instruction boundary (child of vfork)
  bool segments;                 // System V memory is attached that an outsider may attach, too
  bool filtered;                 // some thread has a filter on its calls (seccomp)
  bool trapped;                  // some instructions raise a signal in this thread (PR_SET_TSC)
  bool chaos;                    // chaos mode: calls that move bytes are not made as asked
  bool signalfds;                // there may be some
  uint64_t nameless[kTrackedFds / 64];  // datagram sockets without an address of their own (channels_hot.h)
  Body* lodger;                         // the thread that has the turn is one: this makes its calls
  volatile bool turn_request;           // something happened that may pass the turn on
  volatile bool checkpoint_request;     // it is time for one
  // Timers that the guest directed at one of its threads: index, overrun.
  struct {
    uint32_t index;
    int overrun;
  } timer_hits[kTimerHits];
  volatile unsigned timer_hit_count;
};
extern HotState bs_record;

// The next number in the order of all processes; 0 if there is only one log.
uint64_t next_order();
// To be called before a call is made: takes its number if it gives anything.
void begin_order(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);

// Does this call have an argument that the table does not describe? (Not null: else it does not matter.)
bool has_unknown_argument(const guest::Syscall& row, const Context& ctx);
bool record_syscall_hot(Context& ctx);
bool record_host_op_hot(Context& ctx, const isa::Insn& insn);
engine::SignalVerdict record_signal_hot(int signo, void* info, void* ucontext, bool in_guest);

// Parts of the above for recorder.cc.
// Executes a plain call; sets result and old_counts.
void execute_plain(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
// Does a call that is over come with a descriptor that is too near to ours?
void note_descriptor(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result);
// A system call of the runner's that may sleep; kNotMade if something else has to be done first.
long wait_for(uint64_t nr, const uint64_t args[6]);
// Writes the event of a finished call. False: no room, `needed` says how much.
bool log_syscall(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result,
                 uint8_t flags, bool buffers);
bool record_host_op(Context& ctx, const isa::Insn& insn);
bool log_host_op(const Context& ctx, uint16_t op, unsigned count, const uint64_t* values);

}  // namespace backstep::recorder
