// Each multiple of a number of ticks.
#include "session/kind.h"

#include "events/reader.h"

namespace backstep::session {
namespace {

void read_period(events::Reader& r, events::Spec& s) {
  s.tick = events::need_number(r, r.at(), r.rest(), "a number of ticks");
  if (s.tick == 0) r.fail("every 0 ticks would be at all times: the least is 1");
}

void period_taps(Resolving& r, const events::Spec& spec) {
  r.tap(timeline::Tap::Period).tap.length = spec.tick;
}

}  // namespace

extern const KindOfEvent kEvery{{"every", read_period, {{"every N", "each multiple of N ticks"}}},
                                period_taps};

}  // namespace backstep::session
