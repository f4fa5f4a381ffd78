// `call step between call begin and call end`: begin and end are rare, step is called a million times a
// second, mostly outside of them. Each of its calls costs as much as thousands of instructions of the guest:
// a record is written, read, and fed to the matcher, to no avail.
//
// So the run is swept in three parts. First a small one with everything, as always; whoever has a gate
// (events/gate.h) and matched often while it was closed is worth leaving out. Then the rest without it, which
// shows when the gate is open. Then once more, with everything, the stretches of the rest in which the gate
// is open or something else matches. What lies between these is known to hold no record that matters, so the
// consumer sees all others in the order of time, and the matcher behind it decides as it always does.
//
// The gate of `A then B` is closed by the first B behind the A. So there the last part goes from each A to
// that B, and then over to the next A (or whatever else matches), which the second part has found.
//
// Stretches begin and end with a tick, as windows do. A superfluous one is harmless, so they are wider than
// they need be by a tick on both sides, and near ones are joined: to begin somewhere takes a replay from the
// checkpoint before it.
#include "session/gated.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "events/gate.h"
#include "session/hits.h"

namespace backstep::session {
namespace {

using replayer::Position;
using replayer::TapRecord;
using timeline::Sweep;
using timeline::Swept;
using timeline::Tap;
using timeline::Timeline;

constexpr Tick kLeastTicks = 1 << 22;      // of a run for which it is worth the trouble
constexpr uint64_t kMostInVain = 100'000;  // matches while the gate was closed
constexpr uint64_t kShareInVain = 4;       // … for one that was of use
constexpr size_t kMostOthers = 4 << 20;    // ticks with matches of the others that are kept in mind
constexpr Tick kHurry = 10'000;            // ticks behind which B of `A then B` is hoped for
constexpr Tick kFirstPart = 16, kParts = 64;

// Tests have it done with whatever can have a gate, however short the run is.
bool at_once() {
  static const bool yes = std::getenv("BACKSTEP_GATE") != nullptr;
  return yes;
}

class GatedSweep {
 public:
  GatedSweep(Timeline& timeline, const Sweep& sweep, const events::Event& event,
             const std::vector<size_t>& spec)
      : timeline_(timeline), sweep_(sweep), spec_(spec) {
    result_.counts.resize(sweep.taps.list.size());
    // How often a condition fails is told, wherever that is.
    std::set<size_t> conditional;
    bool behind_calls = false;
    for (size_t i = 0; i < spec.size(); i++) {
      const Tap& tap = sweep.taps.list[i];
      if (!tap.conditions.empty()) conditional.insert(spec[i]);
      behind_calls |= tap.kind == Tap::Call && tap.after;
    }
    // The return of a call belongs to the stretch that has the call, which may have been long before.
    if (behind_calls) return;
    for (const size_t s : events::Gate::gated(event))
      if (!conditional.count(s))
        candidates_.emplace(s, Candidate{.gate = events::Gate(event, s), .last = {}});
  }

  Swept run() {
    const timeline::LogIndex& log = timeline_.log();
    const Position first = sweep_.from.value_or(log.birth().value_or(Position{}));
    const Tick end = sweep_.to ? sweep_.to->tick : log.last().tick;
    const Tick length = end - std::min(end, first.tick);
    if (candidates_.empty() || (length < kLeastTicks && !at_once())) return timeline_.sweep(sweep_);
    const Position middle{first.tick + length / kFirstPart + 1, 0, 0};
    if (middle.tick >= end) return timeline_.sweep(sweep_);
    if (!first_part(middle)) return result_;
    const auto left_out = most_in_vain();
    if (!left_out) {
      part(middle, sweep_.to, nullptr, 0.1, 1,
           [&](const TapRecord& r, const uint8_t* v) { return pass(r, v); });
      return result_;
    }
    Candidate& candidate = candidates_.at(*left_out);
    if (candidate.gate.closes_itself()) {
      rest_of_then(*left_out, candidate, middle, length);
    } else {
      rest(*left_out, candidate, middle, end, length);
    }
    return result_;
  }

 private:
  struct Candidate {
    events::Gate gate;
    uint64_t useful = 0, in_vain = 0;
    std::optional<Position> last;  // of its matches

    bool is_open(const Position& at) const {
      return gate.open_at(at) && !(gate.closes_itself() && gate.closed_by(last));
    }
  };
  using Record = std::function<bool(const TapRecord&, const uint8_t*)>;

  bool pass(const TapRecord& record, const uint8_t* values) const {
    return !sweep_.record || sweep_.record(record, values);
  }

  // False: somebody wants no more. `without`: taps of this simple event are off. `low`, `high`: how much is
  // done before and after.
  bool part(const std::optional<Position>& from, const std::optional<Position>& to, const size_t* without,
            double low, double high, const Record& record, bool counts = true, Tick hurry = 0) {
    Sweep s;
    s.taps = sweep_.taps;
    for (size_t i = 0; without && i < spec_.size(); i++)
      if (spec_[i] == *without) s.taps.list[i].to = 0;  // an era without ticks
    s.from = from, s.to = to;
    s.record = record;
    s.hurry = hurry ? hurry : sweep_.hurry;
    if (sweep_.progress) s.progress = [&](double done) { sweep_.progress(low + done * (high - low)); };
    const Swept swept = timeline_.sweep(s);
    for (size_t i = 0; counts && i < swept.counts.size(); i++) {
      result_.counts[i].matches += swept.counts[i].matches;
      result_.counts[i].failures += swept.counts[i].failures;
    }
    result_.windows += swept.windows, result_.quiet += swept.quiet;
    result_.complete = swept.complete;
    return swept.complete;
  }

  bool first_part(const Position& to) {
    return part(sweep_.from, to, nullptr, 0, 0.1, [&](const TapRecord& record, const uint8_t* values) {
      const size_t s = spec_[record.tap];
      const Position at = position_of(record);
      for (auto& [own, c] : candidates_) {
        if (s == own) {
          (c.is_open(at) ? c.useful : c.in_vain)++;
          c.last = at;
        } else {
          c.gate.feed(s, at);
        }
      }
      return pass(record, values);
    });
  }

  std::optional<size_t> most_in_vain() const {
    std::optional<size_t> most;
    uint64_t in_vain = 0;
    for (const auto& [s, c] : candidates_) {
      const bool worth = at_once() || (c.in_vain > kMostInVain && c.in_vain > kShareInVain * c.useful);
      if (worth && (!most || c.in_vain > in_vain)) most = s, in_vain = c.in_vain;
    }
    return most;
  }

  // Stretches that are not farther apart are one.
  static Tick gap(Tick length) { return at_once() ? 2 : length / kParts; }

  // From each match of the others to the first one of what was left out.
  void rest_of_then(size_t left_out, Candidate& c, const Position& from, Tick length) {
    const auto counted = result_.counts;
    std::vector<Tick> others;  // in which something else matches
    const bool complete =
        part(from, sweep_.to, &left_out, 0.1, 0.6, [&](const TapRecord& record, const uint8_t*) {
          if (others.empty() || others.back() != record.tick) others.push_back(record.tick);
          return others.size() < kMostOthers;
        });
    if (!complete && others.size() < kMostOthers) return;
    if (!complete) {  // nothing is rare here
      result_.counts = counted;
      part(from, sweep_.to, nullptr, 0.2, 1,
           [&](const TapRecord& r, const uint8_t* v) { return pass(r, v); });
      return;
    }
    Position low = from;
    bool open = !c.gate.closed_by(c.last);
    for (;;) {
      auto next = std::lower_bound(others.begin(), others.end(), low.tick);
      if (!open && next == others.end()) return;
      if (!open) low = std::max(low, Position{*next - 1, 0, 0});
      std::optional<Tick> closed;  // in this tick, and there is nothing else for a while
      bool over = false;
      const bool all = part(
          low, sweep_.to, nullptr, 0.6, 1,
          [&](const TapRecord& record, const uint8_t* values) {
            if (closed && record.tick > *closed) {
              over = true;
              return false;
            }
            const Position at = position_of(record);
            if (spec_[record.tap] == left_out) {
              c.last = at;
            } else {
              c.gate.feed(spec_[record.tap], at);
            }
            while (next != others.end() && *next <= record.tick) ++next;
            const bool near = next != others.end() && *next - record.tick <= gap(length);
            closed = c.gate.closed_by(c.last) && !near ? std::optional(record.tick) : std::nullopt;
            return pass(record, values);
          },
          false, kHurry);
      if (all || !over) return;
      result_.complete = true;
      low = {*closed + 1, 0, 0};
      open = false;
    }
  }

  void rest(size_t left_out, Candidate& c, const Position& from, Tick end, Tick length) {
    events::Gate& gate = c.gate;
    events::TickRanges ranges(gap(length));
    const bool complete =
        part(from, sweep_.to, &left_out, 0.1, 0.6, [&](const TapRecord& record, const uint8_t*) {
          gate.feed(spec_[record.tap], position_of(record));
          gate.closed(ranges);
          ranges.add(record.tick, record.tick);
          return true;
        });
    if (!complete) return;
    gate.end(ranges, end);
    Position low = from;
    for (const auto& [a, b] : ranges.list()) {
      // A tick more on both sides, but nothing twice.
      low = std::max(low, Position{a - std::min<Tick>(a, 1), 0, 0});
      const Position high{b + std::min<Tick>(2, ~0ull - b), 0, 0};
      const bool last = high.tick > end || (sweep_.to && high >= *sweep_.to);
      if (!last && high <= low) continue;
      // Matches of the others have been counted before.
      const auto progress = [&](Tick t) {
        return 0.6 + 0.4 * static_cast<double>(t - std::min(t, from.tick)) / static_cast<double>(length + 1);
      };
      if (!part(
              low, last ? sweep_.to : std::optional(high), nullptr, progress(low.tick),
              progress(std::min(high.tick, end)),
              [&](const TapRecord& r, const uint8_t* v) { return pass(r, v); }, false))
        return;
      if (last) return;
      low = high;
    }
  }

  Timeline& timeline_;
  const Sweep& sweep_;
  const std::vector<size_t>& spec_;
  std::map<size_t, Candidate> candidates_;
  Swept result_;
};

}  // namespace

Swept sweep_gated(Timeline& timeline, const Sweep& sweep, const events::Event& event,
                  const std::vector<size_t>& spec) {
  return GatedSweep(timeline, sweep, event, spec).run();
}

}  // namespace backstep::session
