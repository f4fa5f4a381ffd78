// Loads and stores that the heap's blocks do not allow: after the free, beyond the ends, of what nobody has
// written.
#pragma once
#include <functional>
#include <vector>

#include "session/heap_report.h"

namespace backstep::session {

// Feed it the books first (it is a listener of heap()), then run().
class HeapUses {
 public:
  explicit HeapUses(Session& session) : session_(session) {}

  void add(const HeapBlock& block);
  void add_inside(int thread, Tick enter, Tick leave);
  // Each finding in the order of time. False: somebody wanted to stop.
  bool run(const std::optional<Position>& to, bool unwritten, const std::function<void(HeapFinding)>& found,
           const Watcher& watcher);

 private:
  Session& session_;
  std::vector<HeapBlock> blocks_;  // by number - 1
  HeapTerritory ever_;
  struct Inside {
    Tick enter = 0, leave = 0;
  };
  std::map<int, std::vector<Inside>> inside_;  // by thread
};

void add_territory(HeapTerritory& ever, const HeapBlock& block);

}  // namespace backstep::session
