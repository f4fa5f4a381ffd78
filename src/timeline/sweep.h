// Taps over a stretch of the run, on all processors.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "timeline/worker.h"

namespace backstep::timeline {

// A part of a window's trace, packed (recording/trace_chunk.h).
struct TracePart {
  uint64_t count = 0;  // stores
  std::span<const uint8_t> links, stores;
};

struct Sweep {
  std::optional<Position> from, to;  // [from, to); none: the beginning of the process, its end
  Taps taps;
  // Called with each match that is logged, in the order of time. False: enough.
  std::function<bool(const replayer::TapRecord& record, const uint8_t* values)> record;
  // Called when a part of the records has been handed on: all matches before `reached` have been. False:
  // enough.
  std::function<bool(const Position& reached)> handed_on;
  std::function<void(double done)> progress;  // 0 to 1
  // With a tap of the kind Contents: called with the packed table of each window, in the order of time. It is
  // empty if the table could not be made.
  std::function<void(const Position& low, const Position& high, std::span<const uint8_t> packed)> contents;
  // With a tap of the kind Trace: called with what was traced of each window, in the order of time.
  std::function<void(const Position& low, const Position& high, std::span<const TracePart> parts)> traced;
  // Windows are to be those that there will be in other sessions, too: from one stored checkpoint to the
  // next.
  bool by_stored() const { return contents || traced; }
  // A debug module that taps with the action Run call. Its state goes along with the time: all of the stretch
  // is one window then, unless it says that it keeps none.
  std::string debug_module;
  bool stateless = false;
  // What that asks in the middle of the run. Taps of the log in an answer become moments here.
  replayer::DebugAnswers debug_answers;
  // Windows of stored checkpoints that turn out to be long are divided, by new ones.
  bool divide = false;
  // Not 0: it will probably be enough soon, so the first matches are to be handed on after so many ticks of a
  // window, and the next ones after twice as many each time, up to what is usual.
  Tick hurry = 0;
  size_t most = 0;  // windows at a time; 0: one on each processor
};

struct Swept {
  std::vector<replayer::TapCount> counts;  // of each tap
  bool complete = true;                    // false: somebody wanted to stop, or debug code did
  size_t windows = 0, quiet = 0;           // replayed; known to hold no match
};

}  // namespace backstep::timeline
