// A sweep over the ends of all ranges. The ranges that are open at a position wait in a heap, deepest on top;
// one that has ended is thrown away when it gets to the top.
#include "symbols/program_ranges.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace backstep::symbols {

RangeMap::RangeMap(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& e) { return e.range.start >= e.range.end; });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.range.start, a.depth, a.value) < std::tie(b.range.start, b.depth, b.value);
  });
  std::vector<uint64_t> ends;
  for (const Entry& e : entries) {
    ends.push_back(e.range.start);
    ends.push_back(e.range.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());

  auto shallower = [&](size_t a, size_t b) {
    return std::tie(entries[a].depth, entries[a].range.start) <
           std::tie(entries[b].depth, entries[b].range.start);
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(shallower)> open(shallower);
  size_t next = 0;
  for (size_t i = 0; i + 1 < ends.size(); i++) {
    for (; next < entries.size() && entries[next].range.start == ends[i]; next++) open.push(next);
    while (!open.empty() && entries[open.top()].range.end <= ends[i]) open.pop();
    if (open.empty()) continue;
    uint32_t value = entries[open.top()].value;
    if (!pieces_.empty() && pieces_.back().value == value && pieces_.back().range.end == ends[i])
      pieces_.back().range.end = ends[i + 1];
    else
      pieces_.push_back({{ends[i], ends[i + 1]}, value});
  }
}

uint32_t RangeMap::find(uint64_t address) const {
  auto after = std::upper_bound(pieces_.begin(), pieces_.end(), address,
                                [](uint64_t a, const Piece& p) { return a < p.range.start; });
  if (after == pieces_.begin()) return kNone;
  --after;
  return after->range.contains(address) ? after->value : kNone;
}

}  // namespace backstep::symbols
