// Looking for the last store to a few bytes in a window whose pages are busy.
//
// To check all stores of a window is slow where many of them go to the page of the watched bytes: a tenth of
// the usual speed. To have translated code mark what it writes to is not: that costs a third of a plain
// replay, wherever the stores go (engine/shadow_hot.cc). So a window is replayed in *slices* of some
// milliseconds first, and asked behind each which memory it has written to. Then stores are checked in the
// last slice that wrote to one of the bytes, and in those before it only if that was in vain, as the write
// may have been to a neighbour in the same word, by another thread, or not what a condition asks for.
//
// What the slices have written to is kept (window_slices.h), and so are some checkpoints on the way: whoever
// asks where a value came from asks for other bytes of the same windows next.
//
// Memory that the marks cannot follow (has_shadow) is searched as ever.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "timeline/timeline.h"
#include "timeline/windows.h"

namespace backstep::timeline {
namespace {

constexpr double kSlice = 0.003;      // seconds; less than it takes to begin a search in one
constexpr double kWorthwhile = 0.05;  // seconds of a window that is searched so
constexpr double kCopies = 8;         // checkpoints in a window
constexpr double kMostTaken = 0.1;    // of the time of a slice, to ask what it has written to

// Tests have slices of so many ticks in short runs; 0: none.
const char* of_tests() {
  static const char* const wanted = std::getenv("BACKSTEP_SLICE");
  return wanted;
}

Tick ticks_of_slice(double rate, double take_seconds) {
  if (of_tests()) return std::strtoull(of_tests(), nullptr, 10);
  return static_cast<Tick>(rate * std::max(kSlice, take_seconds / kMostTaken));
}

}  // namespace

bool Timeline::worth_slicing(const Position& low, const Position& high, const Taps& taps) const {
  if (!slicing_->able || debug_ || taps.empty() || !WindowSlices::can_tell(taps)) return false;
  const Tick length = high.tick - std::min(high.tick, low.tick);
  if (!of_tests()) return static_cast<double>(length) > ticks_per_second_ * kWorthwhile;
  const Tick slice = ticks_of_slice(0, 0);
  return slice > 0 && length > slice;
}

// From where on it is not known. `parts` are there when it is no more `slicing`.
bool Timeline::begin_slicing(WindowPool& pool, Window& window) {
  const WindowSlices& slices = slicing_->slices;
  Position at = slices.known_until(window.whole_low);
  window.slicing = at < window.whole_high;
  if (!window.slicing) {
    window.parts = slices.candidates(window.whole_low, window.whole_high, window.taps);
    return true;
  }
  const Position wanted = at;
  window.worker = worker_at(wanted, at);
  if (at < wanted && run_to(window.worker, at, wanted).why == Arrival::Interrupted) return false;
  Taps words;
  Tap& tap = words.list.emplace_back();
  tap.kind = Tap::Words;
  tap.action = Tap::Log;
  window.worker.install(words);
  window.search = false;
  window.low = window.at = window.kept = wanted;
  window.until.point = window.high = window.whole_high;
  window.until.fresh = true;
  pool.go_on(window, ticks_of_slice(ticks_per_second_, slicing_->take_seconds), ticks_per_second_);
  return true;
}

// A slice is over.
bool Timeline::go_on_slicing(WindowPool& pool, Window& window) {
  if (window.end.why == Arrival::Overshot) {
    overshot_++;
    window.careful = true;
    return begin_slicing(pool, window);
  }
  learn(window.worker.took(), window.began, window.at.tick);
  auto contents = window.worker.written_words();
  if (!contents) {
    slicing_->able = window.slicing = false;
    window.parts = {{window.whole_low, window.whole_high}};
    return true;
  }
  slicing_->take_seconds = 0.8 * slicing_->take_seconds + 0.2 * window.worker.took();
  slicing_->slices.add(window.low, window.at, std::move(*contents));
  window.low = window.at;
  if (window.end.why != Arrival::AtTick) {
    window.slicing = false;
    window.parts = slicing_->slices.candidates(window.whole_low, window.whole_high, window.taps);
    return true;
  }
  const double way = static_cast<double>(window.at.tick - window.kept.tick);
  const double whole = static_cast<double>(window.whole_high.tick - window.whole_low.tick);
  if (way > std::max(whole / kCopies, ticks_per_second_ * kWorthwhile)) {
    keep(window.worker, window.at);
    window.kept = window.at;
  }
  pool.go_on(window, ticks_of_slice(ticks_per_second_, slicing_->take_seconds), ticks_per_second_);
  return true;
}

// The search goes on in the last part that is left, with those in front of it that it touches: one at first,
// and twice as many each time.
bool Timeline::begin_part(WindowPool& pool, Window& window) {
  if (window.parts.empty()) {
    WindowPool::finish(window);
    return true;
  }
  WindowSlices::Part part = window.parts.back();
  window.parts.pop_back();
  for (size_t i = 1; i < window.at_once && !window.parts.empty() && window.parts.back().to == part.from;
       i++) {
    part.from = window.parts.back().from;
    window.parts.pop_back();
  }
  window.at_once *= 2;
  Position at;
  window.worker = worker_at(part.from, at);
  if (at < part.from) {
    const Arrival halt = run_to(window.worker, at, part.from);
    if (halt.why == Arrival::Interrupted) return false;
    // Who found something here looks at the way to it next.
    keep(window.worker, part.from);
  }
  window.worker.install(window.taps);
  window.search = true;
  window.low = window.at = part.from;
  window.high = part.to;
  window.until.point = part.to;
  window.until.fresh = true;
  pool.go_on(window, slice_, ticks_per_second_);
  return true;
}

}  // namespace backstep::timeline
