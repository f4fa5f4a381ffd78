// Replaying all processes of a recording.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "recording/library.h"
#include "replay/replay.h"
#include "replay/replayer.h"

namespace backstep::replayer {

// How the replay of one log went.
struct Replayed {
  uint64_t process = 0;
  Outcome outcome;
  std::string error;  // it was not exact: a sentence, with both sides
  int code = 0;       // … and the exit status that this calls for
  bool lost = false;  // … only because that of the process that forked it was not
};

// Replays all logs, in parallel; what they wrote to the stdout and stderr of the recording comes out in the
// order in which they wrote it. Sorted by log.
std::vector<Replayed> replay_tree(const ReplayOptions& options, const recording::Library& library,
                                  const recording::Recording& recording);

// One log, in this process. Throws Error.
Outcome replay_log(const ReplayOptions& options, const recording::Library& library,
                   const recording::Recording& recording);

}  // namespace backstep::replayer
