#include "timeline/windows.h"

#include <unistd.h>

#include <algorithm>

namespace backstep::timeline {

WindowPool::WindowPool() : most_(static_cast<size_t>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1l, 16l))) {}

bool WindowPool::full() const {
  const auto busy = std::count_if(windows_.begin(), windows_.end(), [](const Window& w) { return !w.done; });
  return static_cast<size_t>(busy) >= most_;
}

void WindowPool::go_on(Window& window, Tick slice, double rate) {
  window.began = window.at.tick;
  window.until.tick = window.began + slice;
  window.until.rate = window.careful ? 0 : rate;
  window.running = true;
  window.search ? window.worker.begin_search(window.until) : window.worker.begin_run(window.until);
}

Window* WindowPool::wait(const Attention& attention) {
  std::vector<Worker*> busy;
  for (Window& w : windows_)
    if (w.running) busy.push_back(&w.worker);
  Worker* ready = busy.empty() ? nullptr : Worker::wait_for(busy, &attention);
  if (!ready) return nullptr;
  Window& window =
      *std::find_if(windows_.begin(), windows_.end(), [&](Window& w) { return &w.worker == ready; });
  window.running = false;
  if (window.search) {
    const Found part = ready->end_search();
    window.end = part.end;
    window.found.count += part.count;
    if (part.last.why != Arrival::None) window.found.last = part.last;
  } else {
    window.end = ready->end_run();
  }
  window.at = window.end.at;
  return &window;
}

void WindowPool::finish(Window& window) {
  window.done = true;
  window.worker = Worker();
}

}  // namespace backstep::timeline
