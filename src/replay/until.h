// Where a replay is to stop, and where it did.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

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

std::string place(Tick tick, Address pc);  // for people

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

// Where a movement ended and why: of one run of a replaying process as of a way through the whole recording.
struct Arrival {
  enum Why : uint8_t {
    // What a tap looked out for, up to Fork.
    Break,       // in front of the instruction, or at the moment
    Watch,       // behind the instruction or event that touched `address`; it began at `before`
    Signal,      // `signo`, in front of its delivery
    CallEntry,   // in front of the system call `nr`
    CallReturn,  // behind it
    Fork,        // the call that made the process `pid`, which has left its parent's memory if it is of vfork
    DebugStop,   // debug code wanted it
    // What was asked for.
    Stepped,
    There,    // the point
    Missing,  // there is no such moment; as near behind it as there is one
    AtTick,   // a run that is to be looked at now and then
    // What nobody asked for.
    Begin,        // of history
    End,          // of the log; or, in a diversion, the guest's end
    Interrupted,  // somebody wanted a stop
    Overshot,     // too far: nothing but to start again from before
    Fault,        // diversion only: `signo`
    None,
  };
  Why why = There;
  Position at = {};  // of runs
  Position before = {};
  Address address = 0;     // Watch
  uint8_t watch_kind = 0;  // … Tap::Kind
  int signo = 0;
  int tid = 0;  // of the thread that has the turn
  uint64_t nr = 0;
  int pid = 0;
  bool vfork = false;
  uint64_t child = 0;  // the log of that process, as in ForkMoment
};

}  // namespace backstep::replayer
