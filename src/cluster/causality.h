// The happened-before graph of a distributed run: from what its history knows (history.h) to the bare numbers
// of a graph (graph.h), and back.
//
// The 0th event of every process is its birth: a position in it is behind that, however early it is, while a
// process that its parent has not made yet has no position at all. The last one is its end. In between are
// the events of its log at which something came from another process or went to one.
#pragma once
#include <string>
#include <vector>

#include "cluster/graph.h"
#include "cluster/history.h"

namespace backstep::cluster {

class Causality {
 public:
  // `history` must outlive it. Throws Error: what it tells cannot have happened.
  explicit Causality(const History& history);

  const History& history() const { return history_; }
  const Graph& graph() const { return graph_; }

  struct Event {
    enum Kind : uint8_t { Birth, Inner, End } kind = Inner;
    Point point;  // Birth: where the process begins
  };
  const Event& event(GraphEvent event) const { return events_[event.process][event.index]; }
  EventCount length(ProcessId process) const { return static_cast<EventCount>(events_[process].size()); }
  // How many of its events a process at this position has behind it; at least its birth.
  EventCount count_at(ProcessId process, const replayer::Position& at) const;
  // The event that a point is; kNone as its process: none of the graph's.
  GraphEvent find(const Point& point) const;

  // What an edge of the graph is: a transfer or an edge of the history, the first one if there are several.
  struct Link {
    const Transfer* transfer = nullptr;
    const Edge* edge = nullptr;
  };
  Link link(const GraphEdge& edge) const;
  // All that come in, or go out, at an event.
  std::vector<Link> links_into(GraphEvent event) const;
  std::vector<Link> links_from(GraphEvent event) const;

  // "A/server's sendto at @48211:0x401136", "the birth of A/worker.2"
  std::string text(GraphEvent event) const;
  // "64 bytes on tcp A/client -> B/server:80 #3", "SIGTERM", "its creation"
  std::string text(const Link& link) const;

 private:
  // Both ends as events of the graph.
  struct Tie {
    GraphEvent from, to;
    Link link;
  };

  void collect();
  void tie();
  GraphEvent to_of(const Edge& edge) const;

  const History& history_;
  std::vector<std::vector<Event>> events_;  // by process, in its order
  std::vector<Tie> ties_;                   // by `to`
  std::vector<size_t> by_giver_;            // … places of these by `from`
  Graph graph_;
};

}  // namespace backstep::cluster
