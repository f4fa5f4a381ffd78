// Where a replay is to stop, and where it did.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>

#include "engine/context.h"

namespace backstep::replayer {

// A moment of the run. Within one tick and between two events execution only moves to higher addresses, so
// positions are ordered. (tick, pc) alone names the same moment, except that a signal handler may start where
// its quantum has been before.
struct Position {
  Tick tick = 0;
  uint64_t event = 0;  // number of the next event of the log
  Address pc = 0;
  friend auto operator<=>(const Position&, const Position&) = default;  // NOLINT(modernize-use-nullptr)
};

struct Until {
  Tick tick = ~0ull;  // the first position of this tick, or of a later one
  std::optional<Position>
      point;            // exactly there. pc 0: at the start of its tick; event 0: whatever the event
  bool fresh = false;   // a tap at the very place where the run begins counts
  bool before = false;  // one at `point` does not: it belongs to what comes after
  // About how many ticks a second are replayed. Not 0: a long way may be gone quickly (replay_quick.cc); then
  // `tick` may be passed a little, and in the middle of a tick, and it may happen that all was in vain
  // (Overshot).
  double rate = 0;
};

struct Halt {
  enum Why : uint8_t {
    AtTick,
    AtPoint,
    Passed,  // the point is over: there is no such moment
    Break,   // a tap in code, in front of the instruction
    Watch,   // behind the instruction or event that touched `address`; it began at `before`
    Stepped,
    Interrupted,
    Overshot,  // too far: nothing but to start again from before
    Ended,     // the log has no more; or, in a diversion, the guest's end
    Fault,     // diversion only: `signo`
    None,
  };
  Why why = None;
  Position at;
  Position before;
  Address address = 0;
  uint8_t watch_kind = 0;
  int signo = 0;
  int tid = 0;  // of the thread that has the turn
};

}  // namespace backstep::replayer
