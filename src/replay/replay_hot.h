// The replayer's hot half: answers system calls and instructions from the log, checking everything on the
// way.
#pragma once
#include <cstdint>

#include "engine/context.h"
#include "engine/hooks.h"
#include "isa/decode.h"
#include "recording/format.h"

namespace backstep::replayer {

struct HotState {
  const uint8_t* p;    // next event
  const uint8_t* end;  // of the verified events of this chunk
  uint64_t event;      // number of the event at p
  Tick tick;           // of the last event with a tick
  bool output;         // repeat what the program wrote to stdout and stderr
  bool executed;       // the call is done (registers too); events behind it want a look
  uint64_t nr;         // … and this was its number
  uint64_t position;   // bytes of the log before this chunk, for progress
  uint64_t size;       // of the log; 0: no progress to be shown
  bool look_around;    // SIGALRM stops the guest, see Replayer::run()
  bool timer;          // likewise, a timer is running for that …
  bool rung;           // … and has run out
  int channel = -1;    // a worker of a tree's replay: output goes to the controller, by this socket
};
extern HotState bs_replay;

// What a worker says to the controller of a tree's replay (tree_replay.cc).
struct Message {
  enum Kind : uint32_t {
    Stdout = 1,    // bytes that event `value` wrote
    Stderr = 2,    // likewise
    Written = 3,   // that was all of this event
    Forked = 4,    // comes with the socket of the worker that replays log `value`; both wait for permission
    Finished = 5,  // how it went (Replayed)
  };
  uint32_t kind;
  uint32_t size;  // bytes that follow
  uint64_t value;
};

bool replay_syscall_hot(Context& ctx);
bool replay_host_op_hot(Context& ctx, const isa::Insn& insn);
engine::SignalVerdict replay_signal_hot(int signo, void* info, void* ucontext, bool in_guest);

// Repeats the output of a finished call, which is this event, on our own stdout or stderr.
void repeat_output(uint64_t event, uint64_t nr, const uint64_t args[6], int64_t result, uint8_t flags);

}  // namespace backstep::replayer
