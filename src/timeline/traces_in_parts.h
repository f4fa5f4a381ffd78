// Making traces (stored_traces.h) in parts: for who makes them here, and for who has them made elsewhere.
#pragma once
#include <functional>
#include <vector>

#include "timeline/timeline.h"

namespace backstep::timeline {

// The windows with tables of contents that a stretch touches, as far as they have no good trace of this level
// or a higher one.
std::vector<Timeline::Span> missing_traces(Timeline& timeline, int level, const Position& from,
                                           const Position& to);

// What a replay of one of these, or of some of its windows, finds: Sweep::traced. `most` windows at a time,
// 0: one on each processor. False: somebody wanted to stop.
bool sweep_traces(Timeline& timeline, int level, const Timeline::Span& span, size_t most,
                  const std::function<void(double done)>& progress, const decltype(Sweep::traced)& found);

}  // namespace backstep::timeline
