// From breakpoints to cuts, and from one cut to the next.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "cluster/cut.h"
#include "timeline/log_index.h"

namespace backstep::cluster {

class Breaking {
 public:
  explicit Breaking(const Causality& causality) : causality_(causality) {}

  // Pessimistic: the least consistent cut in which these processes are at these positions. With `base`, which
  // has to be consistent: everybody else is no earlier than there. Throws Error: one of them would have to be
  // further than its breakpoint for another to come to its own.
  Cut causal(const std::vector<Breakpoint>& breakpoints, const Cut* base = nullptr);
  // The greatest cut in which none of them is behind its breakpoint. With `bounds`: nor anybody behind where
  // they are there. A process may wait before its breakpoint, for what another one has not done at its own.
  Cut optimistic(const std::vector<Breakpoint>& breakpoints, const Cut* bounds = nullptr);
  // The one in which nothing has happened, and the one in which everything has.
  Cut start();
  Cut end();
  // The last one before somebody outside has told processes to end: what a run that hung looked like.
  Cut alive();

  // The earliest place of a process in which its first `count` events have happened, and the latest one in
  // which no more have. `count` is at least 1 for the first, its birth.
  replayer::Position behind(ProcessId process, EventCount count);
  Place earliest(ProcessId process, EventCount count);
  Place latest(ProcessId process, EventCount count) const;

 private:
  const timeline::LogIndex& log(ProcessId process);
  bool has_parent(ProcessId process) const;
  Counts no_counts() const;
  Counts all_counts() const;
  std::string needed_text(const GraphEdge& edge) const;
  std::string waits_text(const GraphEdge& edge) const;
  void check_possible(const std::vector<Breakpoint>& breakpoints, const Counts& asked,
                      const GraphCut& cut) const;

  const Causality& causality_;
  std::map<ProcessId, std::unique_ptr<timeline::LogIndex>> logs_;
};

}  // namespace backstep::cluster
