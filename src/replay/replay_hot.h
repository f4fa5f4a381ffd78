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
};
extern HotState bs_replay;

bool replay_syscall_hot(Context& ctx);
bool replay_host_op_hot(Context& ctx, const isa::Insn& insn);
engine::SignalVerdict replay_signal_hot(int signo, void* info, void* ucontext, bool in_guest);

// Repeats the output of a finished call on our own stdout or stderr.
void repeat_output(uint64_t nr, const uint64_t args[6], int64_t result, uint8_t flags);

}  // namespace backstep::replayer
