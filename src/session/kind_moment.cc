// Moments of the run: by tick, as a control point, or by any other name that a moment has.
#include "session/kind.h"

#include "events/reader.h"
#include "session/session.h"

namespace backstep::session {
namespace {

void read_tick(events::Reader& r, events::Spec& s) {
  s.tick = events::need_number(r, r.at(), r.rest(), "a number of ticks");
}

// N or N:0xPC
void read_point(events::Reader& r, events::Spec& s) {
  const size_t column = r.at();
  const std::string text = r.rest();
  const size_t colon = text.find(':');
  s.tick = events::need_number(r, column, text.substr(0, colon), "a tick");
  if (colon == std::string::npos) return;
  s.pc = events::need_number(r, column + 1 + colon, text.substr(colon + 1), "an address");
}

void read_moment(events::Reader& r, events::Spec& s) {
  s.name = r.rest();
  if (s.name.empty()) r.fail("the moment is missing here: a bookmark, 50%, 14:03:22, 'event 106', end");
}

// An address comes twice in a tick only where a signal handler begins inside of another: both count.
void code_in_tick(Resolving& r, Address pc, Tick tick) {
  ResolvedTap& tap = r.code(pc);
  tap.tap.from = tick, tap.tap.to = tick + 1;
}

void point_taps(Resolving& r, const events::Spec& spec) {
  if (spec.pc)
    code_in_tick(r, spec.pc, spec.tick);
  else
    r.at(Position{spec.tick, 0, 0});
}

void moment_taps(Resolving& r, const events::Spec& spec) {
  const Position at = r.session.moment(spec.name);
  if (at.pc && !at.event)
    code_in_tick(r, at.pc, at.tick);
  else
    r.at(at).pc = at.pc;
}

}  // namespace

extern const KindOfEvent kTick{{"tick", read_tick, {{"tick N, @N:0xPC", "a moment of the run"}}}, point_taps};
extern const KindOfEvent kPoint{{"@", read_point}, point_taps};
extern const KindOfEvent kMoment{
    {"at",
     read_moment,
     {{"at MOMENT", "a moment by another name: a bookmark, 50%, 14:03:22, event 106, end"}}},
    moment_taps};

}  // namespace backstep::session
