// What the workers of a tree's replay tell the controller (tree_replay.cc), over a stream socket each.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "recording/library.h"
#include "replay/replay.h"
#include "replay/replay_hot.h"
#include "replay/tree_replay.h"

namespace backstep::replayer {

// Ends the calling process: replays the log options.process, and the logs of processes that this one forks in
// forks of itself. `child_at`: the log that begins with the fork at that event of that log, or 0.
using ChildAt = std::function<uint64_t(uint64_t process, uint64_t event)>;
[[noreturn]] void work(int channel, const ReplayOptions& options, const recording::Library& library,
                       const recording::Recording& recording, const ChildAt& child_at);

std::string pack(const Replayed& result);
Replayed unpack(const std::string& text);

}  // namespace backstep::replayer
