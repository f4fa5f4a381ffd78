#include "timeline/window_slices.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace backstep::timeline {
namespace {

constexpr uint64_t kMostBytes = 128 << 20;

bool can_match(const recording::Contents& contents, const Taps& taps) {
  return std::any_of(taps.list.begin(), taps.list.end(),
                     [&](const Tap& t) { return !t.off && contents.wrote(t.start, t.start + t.length); });
}

uint64_t bytes_of(const recording::Contents& contents) {
  return contents.pages.size() * sizeof contents.pages[0] +
         contents.ranges.size() * sizeof contents.ranges[0];
}

}  // namespace

bool WindowSlices::can_tell(const Taps& taps) {
  return std::all_of(taps.list.begin(), taps.list.end(),
                     [](const Tap& t) { return t.off || t.kind == Tap::Write || t.kind == Tap::Store; });
}

void WindowSlices::add(const Position& from, const Position& to, recording::Contents contents) {
  if (from >= to) return;
  if (const auto known = slices_.find(from); known != slices_.end()) {
    if (known->second.to >= to) return;
    bytes_ -= bytes_of(known->second.contents);
    std::erase(order_, from);
    slices_.erase(known);
  }
  bytes_ += bytes_of(contents);
  slices_.emplace(from, Slice{to, std::move(contents)});
  order_.push_back(from);
  while (bytes_ > kMostBytes && order_.size() > 1) {
    const auto first = slices_.find(order_.front());
    bytes_ -= bytes_of(first->second.contents);
    slices_.erase(first);
    order_.pop_front();
  }
}

Position WindowSlices::known_until(const Position& from) const {
  Position at = from;
  for (auto next = slices_.upper_bound(at); next != slices_.begin(); next = slices_.upper_bound(at)) {
    const Position end = std::prev(next)->second.to;
    if (end <= at) break;
    at = end;
  }
  return at;
}

std::vector<WindowSlices::Part> WindowSlices::candidates(const Position& from, const Position& to,
                                                         const Taps& taps) const {
  std::vector<Part> parts;
  auto next = slices_.upper_bound(from);
  if (next != slices_.begin() && std::prev(next)->second.to > from) --next;
  for (Position at = from; at < to;) {
    // (A slice may reach into the next one, which is from another replay.)
    while (next != slices_.end() && next->second.to <= at) ++next;
    const Position begin = next == slices_.end() ? to : std::min(next->first, to);
    if (begin > at) {
      parts.push_back({at, begin});
      at = begin;
      continue;
    }
    const Position end = std::min(next->second.to, to);
    if (can_match(next->second.contents, taps)) parts.push_back({at, end});
    at = end;
    ++next;
  }
  return parts;
}

}  // namespace backstep::timeline
