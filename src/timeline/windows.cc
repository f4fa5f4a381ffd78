#include "timeline/windows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/error.h"

namespace backstep::timeline {
namespace {

std::atomic<size_t>* shared_count = nullptr;  // windows under way in all processes; null: this one is alone

}  // namespace

SharedWindows::SharedWindows() {
  void* map = mmap(nullptr, sizeof *shared_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw Error("cannot share memory: " + errno_text(errno));
  shared_count = new (map) std::atomic<size_t>(0);
}

SharedWindows::~SharedWindows() {
  munmap(shared_count, sizeof *shared_count);
  shared_count = nullptr;
}

WindowPool::WindowPool(size_t most)
    : most_(most ? most : static_cast<size_t>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1l, 16l))) {}

WindowPool::~WindowPool() {
  if (shared_count) *shared_count -= counted_;
}

bool WindowPool::full() {
  const auto busy = static_cast<size_t>(
      std::count_if(windows_.begin(), windows_.end(), [](const Window& w) { return !w.done && !w.pending; }));
  if (!shared_count) return busy >= most_;
  // Two may see the last place free; that they both take it costs little.
  const size_t all = *shared_count += busy - counted_;
  counted_ = busy;
  return busy >= most_ || (busy > 0 && all >= most_);
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
