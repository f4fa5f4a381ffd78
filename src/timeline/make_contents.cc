// Making tables of contents (stored_contents.h): a sweep in which nothing is looked for, over the windows
// that have none. It needs checkpoints to be cut into windows at all; where there are none yet, one replay of
// the stretch makes them first.
#include <algorithm>

#include "timeline/timeline.h"

namespace backstep::timeline {
namespace {

constexpr Tick kLongStretch = 100'000'000;  // may take some tenths of a second
constexpr Tick kTrial = 30'000'000;
constexpr double kFew = 3;  // times what is usually between two checkpoints

struct Hole {
  Position from, to;
};

}  // namespace

bool Timeline::quiet(const Position& from, const Position& to, const Taps& taps) {
  if (!stored_.enabled()) return false;
  return stored_.quiet(from, to, taps) || contents_.quiet_until(from, to, taps) >= to;
}

Timeline::Made Timeline::make_contents(const Position& from, const Position& to,
                                       const std::function<void(double done)>& progress) {
  Made made;
  std::vector<Hole> holes;
  Tick missing = 0;
  for (Position at = from; at < to;) {
    if (const StoredWindow* known = contents_.at(at)) {
      at = known->to;
      continue;
    }
    Position end = to;
    for (const StoredWindow& w : contents_.list())
      if (w.from > at) end = std::min(end, w.from);
    holes.push_back({at, end});
    missing += end.tick - at.tick;
    at = end;
  }

  for (const Hole& hole : holes) {
    Position at = hole.from;
    auto fill = [&](const Position& end) {
      if (end.tick - at.tick < kLongStretch) return true;
      Position begin;
      Worker worker = worker_at(at, begin);
      // How long it is in seconds, the first part of it tells.
      const Arrival trial = run_to(worker, begin, {begin.tick + kTrial, 0, 0});
      if (trial.why == Arrival::Interrupted) return false;
      const double left = static_cast<double>(end.tick - trial.at.tick) / ticks_per_second_;
      if (left < kFew * stored_.seconds()) return true;
      const bool done = run_to(worker, trial.at, end).why != Arrival::Interrupted;
      gather_stored(true);
      return done;
    };
    std::vector<Position> cuts;
    for (const Checkpoint& c : checkpoints_)
      if (c.stored && c.at > hole.from && c.at < hole.to) cuts.push_back(c.at);
    cuts.push_back(hole.to);
    for (const Position& cut : cuts) {
      if (!fill(cut)) {
        made.complete = false;
        return made;
      }
      at = cut;
    }
  }

  Tick done = 0;
  for (const Hole& hole : holes) {
    Sweep sweep;
    sweep.from = hole.from;
    // Up to the end of the process if that is what is asked for: there is no moment behind it.
    if (hole.to < log_.last().position()) sweep.to = hole.to;
    Tap tap;
    tap.kind = Tap::Contents;
    tap.action = Tap::Log;
    sweep.taps.list.push_back(tap);
    const double share = static_cast<double>(hole.to.tick - hole.from.tick) /
                         std::max<double>(1, static_cast<double>(missing));
    sweep.progress = [&](double part) {
      if (progress)
        progress(static_cast<double>(done) / std::max<double>(1, static_cast<double>(missing)) +
                 share * part);
    };
    sweep.contents = [&](const Position& low, const Position& high, std::span<const uint8_t> packed) {
      if (packed.empty()) {
        made.unknown++;
        return;
      }
      contents_.add(low, high, recording::Contents::unpack(packed));
      made.windows++;
    };
    if (!this->sweep(sweep).complete) {
      made.complete = false;
      return made;
    }
    done += hole.to.tick - hole.from.tick;
  }
  return made;
}

}  // namespace backstep::timeline
