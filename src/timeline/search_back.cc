// Looking for the last match before the present.
//
// Time is cut into windows at the checkpoints; each can be searched on its own, from its checkpoint forward.
// So as many are searched at once as there are processors, the newest ones first. A match in one of them
// makes the older ones pointless; it is the answer when the newer ones have been searched in vain. Windows in
// which nothing can match, by what is known of the pages that they write to and execute, are passed over.
//
// Each worker runs slices of some 50 ms, as everywhere; between them the controller is asked whether to stop.
#include <algorithm>
#include <utility>

#include "timeline/timeline.h"
#include "timeline/windows.h"

namespace backstep::timeline {

Worker Timeline::worker_from(std::list<Checkpoint>::iterator checkpoint) {
  if (checkpoint->worker) return checkpoint->worker.fork();
  Worker fresh = checkpoints_.front().worker.fork();
  if (stored_.restore(fresh, checkpoint->stored)) return fresh;
  tell_notes();
  checkpoints_.erase(checkpoint);
  return {};
}

Arrival Timeline::last_before(const Taps& taps, const Position& before, const Position& lowest) {
  end_diversion();
  attention.stop_asked = false;
  const Position present = std::exchange(now_, before);
  Arrival found;
  try {
    found = search_back(taps, lowest);
  } catch (...) {
    now_ = present;
    throw;
  }
  now_ = present;
  return found;
}

std::optional<Worker::Steps> Timeline::steps(Tick from, const Position& to, uint64_t most) {
  attention.stop_asked = false;
  const Tick start = log_.before_gap(std::max(from, first().tick));
  Position at;
  Worker worker = worker_at({start, 0, 0}, at);
  if (at.tick < start) {
    const Arrival halt = run_to(worker, at, {start, 0, 0});
    if (halt.why == Arrival::Interrupted) return std::nullopt;
  }
  worker.install({});
  Worker::Steps steps = worker.steps(to, most, &attention);
  if (attention.stop_asked) return std::nullopt;
  return steps;
}

Arrival Timeline::search_back(const Taps& taps, const Position& lowest) {
  searched_ = {};
  WindowPool pool;
  auto& windows = pool.windows();  // newest first
  Position high = now_;            // what is before this has not been begun
  Position begun = now_;           // … nor from checkpoints before this
  Position narrowed{~0ull, 0, 0};  // the checkpoint whose window only a part of was begun
  // Whether a checkpoint is at the beginning of its tick is not known: where that matters, the window begins
  // with the next one.
  const bool by_tick = taps.any_by_tick();
  for (;;) {
    while (!pool.full() && high > lowest) {
      auto checkpoint = nearest_before(begun, false);
      if (checkpoint == checkpoints_.end()) {
        high = lowest;
        break;
      }
      Position low = begun = checkpoint->at;
      if (quiet(low, high, taps)) {
        searched_.quiet++;
        high = low;
        continue;
      }
      // Of a window whose last stores are known nothing is replayed with taps but what is behind the last
      // one that may matter; what is before it only if that was in vain.
      const bool again = std::exchange(narrowed, low) == low;
      const Tick end = again ? ~0ull : ticks_of(low, high, taps).end;
      if (end == 0) {
        searched_.quiet++;
        high = low;
        continue;
      }
      const bool part = end != ~0ull && end > low.tick + 1 && !by_tick;
      if (!part && worth_slicing(low, high, taps)) {
        Window& window = windows.emplace_back();
        window.taps = taps;
        window.whole_low = low;
        window.whole_high = high;
        if (!begin_slicing(pool, window) || (!window.slicing && !begin_part(pool, window)))
          return {.why = Arrival::Interrupted};
        searched_.replayed++;
        high = low;
        continue;
      }
      Window window;
      const bool first = checkpoint == checkpoints_.begin();
      window.worker = worker_from(checkpoint);
      if (!window.worker) continue;
      if (by_tick && !first) {
        const Arrival halt = run_to(window.worker, low, {low.tick + 1, 0, 0});
        if (halt.why == Arrival::Interrupted) return halt;
        low = halt.at;
        if (low >= high) continue;
      }
      if (part) {
        const Arrival halt = run_to(window.worker, low, {end - 1, 0, 0});
        if (halt.why == Arrival::Interrupted) return halt;
        low = begun = halt.at;
      }
      window.worker.install(taps);
      window.taps = taps;
      window.search = true;
      window.low = window.at = low;
      window.high = high;
      window.until.point = high;
      window.until.fresh = true;
      windows.push_back(std::move(window));
      pool.go_on(windows.back(), slice_, ticks_per_second_);
      searched_.replayed++;
      high = low;
    }
    while (!windows.empty() && windows.front().done) {
      if (windows.front().found.last.why != Arrival::None) return windows.front().found.last;
      windows.pop_front();
    }
    if (windows.empty()) {
      if (high > lowest) continue;
      return {.why = Arrival::None};
    }

    Window* window = pool.wait(attention);
    if (!window) return {.why = Arrival::Interrupted};
    if (window->slicing) {
      if (!go_on_slicing(pool, *window) || (!window->slicing && !begin_part(pool, *window)))
        return {.why = Arrival::Interrupted};
      continue;
    }
    if (window->end.why == Arrival::Overshot) {
      if (!start_again(*window)) return {.why = Arrival::Interrupted};
      window->worker.install(window->taps);
      window->at = window->low;
      window->found = {};
      pool.go_on(*window, slice_, ticks_per_second_);
      continue;
    }
    learn(window->worker.took(), window->began, window->at.tick);
    if (window->end.why == Arrival::AtTick) {
      // Who searches here will do so again: the next time from nearer.
      if (window == &windows.front() && window->at < window->high) keep(window->worker, window->at);
      pool.go_on(*window, slice_, ticks_per_second_);
      continue;
    }
    if (window->found.last.why == Arrival::None && !window->parts.empty()) {
      if (!begin_part(pool, *window)) return {.why = Arrival::Interrupted};
      continue;
    }
    pool.finish(*window);
    if (window->found.last.why == Arrival::None) continue;
    // Older ones do not matter any more.
    while (&windows.back() != window) windows.pop_back();
    high = lowest;
  }
}

}  // namespace backstep::timeline
