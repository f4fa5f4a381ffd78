// Making tables of contents (stored_contents.h): a sweep in which nothing is looked for, over the windows
// that have none. It needs checkpoints to be cut into windows at all; where there are none yet, one replay of
// the stretch makes them first.
#include <algorithm>

#include "timeline/timeline.h"
#include "timeline/window_slices.h"

namespace backstep::timeline {
namespace {

constexpr Tick kLongStretch = 100'000'000;  // may take some tenths of a second
constexpr Tick kTrial = 30'000'000;
constexpr double kFew = 3;  // times what is usually between two checkpoints

}  // namespace

bool Timeline::quiet(const Position& from, const Position& to, const Taps& taps) {
  if (slicing_->slices.quiet(from, to, taps)) return true;
  if (!stored_.enabled()) return false;
  return stored_.quiet(from, to, taps) || contents_.quiet_until(from, to, taps) >= to;
}

std::vector<Timeline::Span> Timeline::holes(
    const Position& from, const Position& to,
    const std::function<std::optional<Span>(const Position&)>& find) const {
  std::vector<Span> holes;
  for (Position at = from; at < to;) {
    const auto next = find(at);
    if (next && next->from <= at) {
      at = next->to;
      continue;
    }
    const Position end = next ? std::min(to, next->from) : to;
    holes.push_back({at, end});
    at = end;
  }
  return holes;
}

std::optional<std::vector<Timeline::Span>> Timeline::missing_contents(const Position& from,
                                                                      const Position& to) {
  const std::vector<Span> holes = this->holes(from, to, [&](const Position& at) -> std::optional<Span> {
    if (const StoredWindow* known = contents_.at(at)) return Span{known->from, known->to};
    std::optional<Span> next;
    for (const StoredWindow& w : contents_.list())
      if (w.from > at && (!next || w.from < next->from)) next = Span{w.from, w.to};
    return next;
  });

  for (const Span& hole : holes) {
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
    for (const Span& window : windows_in(hole)) {
      if (!fill(window.to)) return std::nullopt;
      at = window.to;
    }
  }
  return holes;
}

std::vector<Timeline::Span> Timeline::windows_in(const Span& span) const {
  std::vector<Span> windows;
  Position at = span.from;
  for (const Checkpoint& c : checkpoints_) {
    if (!c.stored || c.at <= span.from || c.at >= span.to) continue;
    windows.push_back({at, c.at});
    at = c.at;
  }
  windows.push_back({at, span.to});
  return windows;
}

bool Timeline::sweep_contents(const Span& span, size_t most, const std::function<void(double done)>& progress,
                              const decltype(Sweep::contents)& found, bool divide) {
  Sweep sweep;
  sweep.from = span.from;
  // Up to the end of the process if that is what is asked for: there is no moment behind it.
  if (span.to < log_.last().position()) sweep.to = span.to;
  Tap tap;
  tap.kind = Tap::Contents;
  tap.action = Tap::Log;
  sweep.taps.list.push_back(tap);
  sweep.progress = progress;
  sweep.contents = found;
  sweep.most = most;
  sweep.divide = divide;
  return this->sweep(sweep).complete;
}

Timeline::Made Timeline::make_contents(const Position& from, const Position& to,
                                       const std::function<void(double done)>& progress) {
  Made made;
  const auto holes = missing_contents(from, to);
  if (!holes) {
    made.complete = false;
    return made;
  }
  double missing = 0, done = 0;
  for (const Span& hole : *holes) missing += static_cast<double>(hole.to.tick - hole.from.tick);
  for (const Span& hole : *holes) {
    const double length = static_cast<double>(hole.to.tick - hole.from.tick);
    auto progress_of_all = [&](double part) {
      if (progress) progress((done + length * part) / std::max(1.0, missing));
    };
    auto keep = [&](const Position& low, const Position& high, std::span<const uint8_t> packed) {
      if (packed.empty()) {
        made.unknown++;
        return;
      }
      contents_.add(low, high, recording::Contents::unpack(packed));
      made.windows++;
    };
    if (!sweep_contents(hole, 0, progress_of_all, keep, true)) {
      made.complete = false;
      return made;
    }
    done += length;
  }
  return made;
}

}  // namespace backstep::timeline
