// Making traces (stored_traces.h), and what sweeps and searches take from them.
//
// A trace says where stores are. Whoever wants the stores themselves gets them from there; whoever wants to
// stop at one, or to evaluate something, replays the window, but only between the first and the last tick in
// which there is one. So the answers are those of the replay.
#include <algorithm>

#include "timeline/timeline.h"
#include "timeline/traces_in_parts.h"
#include "timeline/windows.h"

namespace backstep::timeline {

StoredTraces::Ticks Timeline::ticks_of(const Position& from, const Position& to, const Taps& taps) {
  if (!stored_.enabled()) return {};
  const auto ticks = traces_.ticks_of(from, to, taps);
  if (!ticks) return {};
  // Memory may also change as a whole (mmap), which the table of contents knows.
  const recording::Contents* contents = contents_.covering(from, to);
  const bool only_stores = contents && std::all_of(taps.list.begin(), taps.list.end(), [&](const Tap& t) {
                             return t.off || !contents->changed_as_a_whole(t.start, t.start + t.length);
                           });
  return only_stores ? *ticks : StoredTraces::Ticks{};
}

std::optional<Window> Timeline::traced_window(const Sweep& sweep, const Position& low, const Position& to) {
  if (!stored_.enabled() || !sweep.record || sweep.taps.list.size() != 1 || sweep.taps.thread)
    return std::nullopt;
  const Tap& tap = sweep.taps.list.front();
  if (tap.kind != Tap::Accesses || tap.action != Tap::Log || tap.length != Tap::kStores ||
      !tap.conditions.empty())
    return std::nullopt;
  const auto traced = traces_.at(low, 3);
  if (!traced) return std::nullopt;
  const bool ends_inside = to < traced->to;
  // A place in the middle of a tick is not to be compared with others if its event is not known.
  if (ends_inside && to.pc && !to.event) return std::nullopt;
  std::vector<recording::AddressRange> data;
  for (const Tap::Range& r : tap.data) data.push_back({r.start, r.end});
  if (!traces_.is_good(*traced, data)) return std::nullopt;
  Window window;
  window.low = window.at = low;
  window.high = ends_inside ? to : traced->to;
  window.trace = traces_.trace_of(*traced);
  window.done = true;
  window.counts.resize(1);
  return window;
}

std::vector<Timeline::Span> missing_traces(Timeline& timeline, int level, const Position& begin,
                                           const Position& end) {
  // Whole windows, so that each has one level.
  Position from = begin, to = end;
  if (const StoredWindow* first = timeline.contents().at(begin)) from = first->from;
  if (const StoredWindow* last = timeline.contents().at(end); last && last->from < end) to = last->to;
  std::vector<Timeline::Span> missing;
  Position behind = from;  // what is before this is there, or missing
  for (const TracedWindow& w : timeline.traces().list()) {
    // What is there is not made again; unless it is damaged.
    if (w.level < level || w.to <= behind || w.from >= to || !timeline.traces().is_good(w, {})) continue;
    if (w.from > behind) missing.push_back({behind, w.from});
    behind = w.to;
  }
  if (behind < to) missing.push_back({behind, to});
  return missing;
}

bool sweep_traces(Timeline& timeline, int level, const Timeline::Span& span, size_t most,
                  const std::function<void(double done)>& progress, const decltype(Sweep::traced)& found) {
  Sweep sweep;
  sweep.from = span.from;
  if (span.to < timeline.log().last().position()) sweep.to = span.to;
  Tap tap;
  tap.kind = Tap::Trace;
  tap.action = Tap::Log;
  tap.length = static_cast<uint64_t>(level);
  sweep.taps.list.push_back(tap);
  sweep.progress = progress;
  sweep.traced = found;
  sweep.most = most;
  return timeline.sweep(sweep).complete;
}

Timeline::Made Timeline::make_traces(int level, const Position& begin, const Position& end,
                                     const std::function<void(double done)>& progress) {
  // What is written to in other ways than by stores is in the tables of contents.
  constexpr double kOfContents = 0.4;
  auto part = [&](double first, double share) {
    return [&progress, first, share](double done) {
      if (progress) progress(first + share * done);
    };
  };
  Made made = make_contents(begin, end, part(0, kOfContents));
  if (!made.complete) return made;
  made = {};
  const std::vector<Span> missing = missing_traces(*this, level, begin, end);
  double length = 0, done = 0;
  for (const Span& hole : missing) length += static_cast<double>(hole.to.tick - hole.from.tick);
  length = std::max(1.0, length);
  for (const Span& hole : missing) {
    const double share = static_cast<double>(hole.to.tick - hole.from.tick) / length;
    made.complete = sweep_traces(
        *this, level, hole, 0, part(kOfContents + (1 - kOfContents) * done, (1 - kOfContents) * share),
        [&](const Position& low, const Position& high, std::span<const TracePart> parts) {
          traces_.add(low, high, level, parts);
          made.windows++;
          made.reduced += traces_.reduce();
        });
    if (!made.complete) return made;
    done += share;
  }
  return made;
}

}  // namespace backstep::timeline
