// Debug regions are usually written after the run was recorded, so lines behind them are not those of the
// recorded program's line table. The source of that time is not there to compare with; but both compilations
// say which lines of each function have code, and there are two ways only in which regions can have moved
// them. The one that fits is taken, and if none does the function was changed.
#include "probe/source_lines.h"

#include <algorithm>

namespace backstep::probe {

int LineMove::recorded(int line) const {
  int moved = line - distance_;
  for (const auto& [first, last] : removed_)
    if (last < line) moved -= last - first + 1;
  return moved;
}

std::optional<LineMove> LineMove::find(const FunctionLines& now, const FunctionLines& recorded,
                                       const std::vector<std::pair<int, int>>& regions,
                                       std::optional<std::pair<int, int>> next) {
  constexpr double kEnough = 0.8;
  if (now.lines.empty() || recorded.lines.empty()) return {};
  std::optional<LineMove> best;
  double most = 0;
  // A file that got the #include line and regions has moved; where nothing did, regions were there.
  const bool stayed = now.first == recorded.first;
  for (const bool removed : {!stayed, stayed}) {
    LineMove move;
    move.distance_ = now.first - recorded.first;
    const int end = *now.lines.rbegin();
    if (removed)
      for (const auto& region : regions)
        if (region.first >= now.first && region.second <= end) move.removed_.push_back(region);
    // Where it was inlined its code begins with the line of its name, which may be in front of the bracket's.
    std::set<int> mapped{recorded.first};
    for (const int line : now.lines) mapped.insert(move.recorded(line));
    size_t fits = 0, all = 0;
    // An empty statement is left of a region, which has a line in some compilations.
    auto in_region = [&](int line) {
      return std::any_of(regions.begin(), regions.end(), [&](const auto& region) {
        return line + move.distance_ >= region.first && line + move.distance_ <= region.second;
      });
    };
    for (const int line : recorded.lines) {
      if (!removed && in_region(line)) continue;
      all++;
      fits += mapped.count(line);
    }
    const double share = static_cast<double>(fits) / static_cast<double>(all);
    // Optimised code has fewer lines, but none that are not in the source. Its last line is the closing
    // bracket: if that has moved otherwise than the first, the function was changed. Inlined functions have
    // no code for the bracket; then the next function has to be where it should be.
    if (*mapped.rbegin() != *recorded.lines.rbegin()) {
      if (*mapped.rbegin() < *recorded.lines.rbegin()) continue;
      int behind = next ? move.recorded(next->first) : 0;
      for (const auto& [first, last] : regions)  // in functions between the two
        if (removed && next && first > end && last < next->first) behind -= last - first + 1;
      if (next ? behind != next->second : share < 1) continue;
    }
    if (share >= kEnough && share > most) {
      most = share;
      best = move;
    }
  }
  return best;
}

}  // namespace backstep::probe
