// The space-time diagram of a run as SVG: a line for each process, an arrow for each message, a cut drawn
// across.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cluster/cut.h"

namespace backstep::cluster {

// Logical time: an event's is one more than that of what happened directly before it, in its process or where
// something came from. So arrows always lead to the right, and nothing depends on anybody's clock.
class LogicalTime {
 public:
  explicit LogicalTime(const Causality& causality);
  uint32_t at(GraphEvent event) const { return times_[event.process][event.index]; }
  uint32_t last() const { return last_; }

 private:
  std::vector<std::vector<uint32_t>> times_;
  uint32_t last_ = 0;
};

struct Diagram {
  std::optional<uint32_t> from, to;  // logical times, both included; none: all
  std::vector<ProcessId> processes;  // in this order; none: all
  const Cut* cut = nullptr;
  std::string title;
  double width = 1000;  // at least; long runs are wider
  size_t most_arrows = 20'000;
};

// Throws Error: there would be more arrows than anybody can look at.
std::string space_time_svg(const Causality& causality, const Diagram& diagram);

}  // namespace backstep::cluster
