// Looking for the last match before the present.
//
// Time is cut into windows at the checkpoints; each can be searched on its own, from its checkpoint forward.
// So as many are searched at once as there are processors, the newest ones first. A match in one of them
// makes the older ones pointless; it is the answer when the newer ones have been searched in vain. Windows in
// which nothing can match, by what is known of the pages that they write to and execute, are passed over.
//
// Each worker runs slices of some 50 ms, as everywhere; between them the controller is asked whether to stop.
#include <unistd.h>

#include <algorithm>

#include "timeline/timeline.h"

namespace backstep::timeline {
namespace {

struct Window {
  Worker worker;
  Position high, at;
  Until until;
  Halt last;
  bool done = false;
  std::chrono::steady_clock::time_point start;

  void go_on(Tick slice) {
    until.tick = at.tick + slice;
    start = std::chrono::steady_clock::now();
    worker.begin_search(until);
  }
};

size_t processors() {
  return static_cast<size_t>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1l, 16l));
}

}  // namespace

Worker Timeline::worker_from(std::list<Checkpoint>::iterator checkpoint) {
  if (checkpoint->worker) return checkpoint->worker.fork();
  Worker fresh = checkpoints_.front().worker.fork();
  if (stored_.restore(fresh, checkpoint->stored)) return fresh;
  tell_notes();
  checkpoints_.erase(checkpoint);
  return {};
}

Halt Timeline::search_back(const Stops& stops, const Position& lowest) {
  const size_t most = processors();
  searched_ = {};
  std::list<Window> windows;  // newest first
  Position high = now_;       // what is before this has not been begun
  for (;;) {
    while (windows.size() < most && high > lowest) {
      auto checkpoint = nearest_before(high, false);
      if (checkpoint == checkpoints_.end()) {
        high = lowest;
        break;
      }
      const Position low = checkpoint->at;
      if (stored_.quiet(low, high, stops)) {
        searched_.quiet++;
        high = low;
        continue;
      }
      Window window;
      window.worker = worker_from(checkpoint);
      if (!window.worker) continue;
      window.worker.install(stops);
      window.high = high;
      window.at = low;
      window.until.point = high;
      window.until.fresh = true;
      windows.push_back(std::move(window));
      windows.back().go_on(slice_);
      searched_.replayed++;
      high = low;
    }
    while (!windows.empty() && windows.front().done) {
      if (windows.front().last.why != Halt::None) return windows.front().last;
      windows.pop_front();
    }
    if (windows.empty()) {
      if (high > lowest) continue;
      return {};
    }

    std::vector<Worker*> busy;
    for (Window& w : windows)
      if (!w.done) busy.push_back(&w.worker);
    Worker* ready = Worker::wait_for(busy, &attention);
    if (!ready) {
      Halt halt;
      halt.why = Halt::Interrupted;
      return halt;
    }
    auto window = std::find_if(windows.begin(), windows.end(), [&](Window& w) { return &w.worker == ready; });
    const Found part = ready->end_search();
    if (busy.size() == 1) learn(window->start, window->at.tick, part.end.at.tick);
    if (part.last.why != Halt::None) window->last = part.last;
    window->at = part.end.at;
    if (part.end.why == Halt::AtTick) {
      // Who searches here will do so again: the next time from nearer.
      if (window == windows.begin() && window->at < window->high) keep(*ready, window->at);
      window->go_on(slice_);
      continue;
    }
    window->done = true;
    window->worker = Worker();
    if (window->last.why == Halt::None) continue;
    windows.erase(std::next(window), windows.end());
    high = lowest;
  }
}

}  // namespace backstep::timeline
