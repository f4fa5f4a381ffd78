// Taps in code as the hot world knows them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/context.h"
#include "replay/agent_expression_hot.h"
#include "replay/taps.h"

namespace backstep::replayer {

// One of a tap's expressions; the last one's code is null.
struct HotCode {
  const uint8_t* code;
  size_t size;
};

struct HotValue {
  const uint8_t* code;
  uint32_t size;
  Capture capture;
  uint32_t most;  // bytes
};

struct HotTap {
  const HotCode* conditions;  // null: none
  const HotValue* values;
  uint32_t value_count;
  uint32_t number;  // in the list of taps
  HotTap* next;     // in one of the lists of its place
  uint64_t matches, failures;
  uint32_t longest;  // record
  Tick from, to;     // ticks in which it counts
  Tap::Action action;
  bool strict, stack, vector;
  bool met;  // this time; for reached_hot
  Address function, cookie;
  uint32_t owner;  // Tap::owner, or its own number
};

// The taps of one place. A tap whose era is another one costs nothing: those whose era has come are a list of
// their own, which changes when the next era begins or ends. (A replay only goes forwards.)
struct HotPlace {
  HotTap* current;  // in the order in which they were asked for
  HotTap* later;    // by the beginning of their eras
  Tick change;      // the first tick at which the lists are not right any more
};
void bring_up_to_date(HotPlace& place, Tick tick);

// Where matches are written down, and what of their surroundings the guest's registers do not tell.
struct HotTaps {
  uint8_t* p;    // next free byte of the log
  uint8_t* end;  // of the room there is
  uint64_t event_base;
  int32_t thread;  // virtual name of the one that has the turn
};
extern HotTaps bs_taps;

// engine::Hooks::reached_hot; `what` is the HotPlace.
bool reached_hot(Context& ctx, const void* what);

}  // namespace backstep::replayer
