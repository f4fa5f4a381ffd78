// The traces of windows (levels 2 and 3) that a recording's folder has of one process, and what they are good
// for.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recording/window_trace.h"
#include "timeline/stored_contents.h"
#include "timeline/sweep.h"
#include "timeline/worker.h"

namespace backstep::timeline {

struct TracedWindow {
  Position from, to;
  int level = 2;
  uint64_t stores = 0, size = 0;  // bytes on disk
};

class StoredTraces {
 public:
  StoredTraces(const recording::Recording& recording, uint64_t process);

  // In the order of time.
  std::vector<TracedWindow> list();
  // The window of this level or a higher one that holds the moment; nullopt: there is none.
  std::optional<TracedWindow> at(const Position& moment, int level);
  // … its trace; null: it is damaged, which is noted, and the window is not there any more.
  std::shared_ptr<const recording::WindowTrace> trace_of(const TracedWindow& window);
  // Reads and checks all that is kept of memory that [data] holds; nothing: all. False: it is damaged, as
  // above.
  bool is_good(const TracedWindow& window, std::span<const recording::AddressRange> data);

  // Ticks in which stores can have matched taps.
  struct Ticks {
    Tick first = 0, end = ~0ull;
  };
  // Where in [from, to) the taps can match that look out for stores: nowhere else. Nullopt: not known.
  std::optional<Ticks> ticks_of(const Position& from, const Position& to, const Taps& taps);

  // Room on disk for traces of this recording, of all its processes: bytes. More than that are reduced, those
  // first that were not used for the longest time: level 3 to level 2; if that is not enough, windows of
  // level 2 are merged with their neighbours; and then they go.
  static constexpr uint64_t kUsualBudget = 2'000'000'000;
  uint64_t budget = kUsualBudget;
  // How many were reduced. Throws Error.
  size_t reduce();

  // Throws Error.
  void add(const Position& from, const Position& to, int level, std::span<const TracePart> parts);
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Known {
    TracedWindow window;
    recording::TraceFolder::Entry entry;
    std::shared_ptr<const recording::WindowTrace> trace;  // null: not read, or forgotten again
  };
  void read_list();
  Known* find(const TracedWindow& window);
  void drop(const TracedWindow& window, const std::string& why);
  void take_in(const recording::TraceFolder::Entry& entry);
  void forget(const TracedWindow& window);

  recording::TraceFolder folder_;
  std::vector<Known> known_;  // in the order of time
  bool listed_ = false;
  std::list<Position> recent_;  // beginnings of those that are in memory, the latest first
  std::vector<std::string> notes_;
};

}  // namespace backstep::timeline
