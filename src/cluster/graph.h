// What happened before what in a distributed run, and the cuts that follow from it. Pure: it knows numbers of
// processes and of events, nothing of logs.
//
// A process is a row of events, the 0th, the 1st, …; an edge says that an event of one process needs an event
// of another one to have happened: a receive the send of its last byte, a child's first event its parent's
// fork, a wait the child's exit. A *cut* says of each process how many of its events have happened. It is
// consistent if every event inside has all that it needs inside, too.
//
// Consistent cuts can be joined and intersected and stay consistent. So there is a least one that has given
// events inside (the pessimistic causal breakpoint), and a greatest one that has given events outside (the
// optimistic consistent breakpoint); both are found here.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace backstep::cluster {

using EventCount = uint32_t;

// The `index`-th event of a process.
struct GraphEvent {
  uint32_t process = 0;
  EventCount index = 0;
  friend bool operator==(const GraphEvent&, const GraphEvent&) = default;
};

// `to` needs `from`.
struct GraphEdge {
  GraphEvent from, to;
};

// For each process, how many of its events have happened.
using Counts = std::vector<EventCount>;

// A cut, and what each process is where it is for.
struct GraphCut {
  Counts counts;
  // Of each process. least(): the edge whose need took it as far as it is, that is, its last event inside is
  // `from`. greatest(): the edge whose need keeps its next event outside, which is `to`. None: what was asked
  // for already did.
  std::vector<std::optional<GraphEdge>> because;
};

class Graph {
 public:
  // `lengths`: how many events each process has.
  explicit Graph(std::vector<EventCount> lengths);

  // In any order; cheapest if those of a process come in its order. Throws Error: an event that there is not.
  void add(GraphEvent from, GraphEvent to);
  // Behind the last add(), before anything is asked. Throws Error, if events need each other in a circle;
  // `name` puts events into words there.
  void finish(const std::function<std::string(GraphEvent)>& name = {});

  size_t processes() const { return lengths_.size(); }
  EventCount length(uint32_t process) const { return lengths_[process]; }
  uint64_t edges() const { return edges_; }

  // The least consistent cut that has these inside.
  GraphCut least(const Counts& inside) const;
  // The greatest one that has nothing inside that these do not have.
  GraphCut greatest(const Counts& bounds) const;
  // What makes the cut inconsistent: an edge whose `to` is inside and whose `from` is not.
  std::optional<GraphEdge> violation(const Counts& counts) const;

  // Did `a` happen before `b`: is there a way along the edges and the processes from one to the other? (An
  // event did not happen before itself.)
  bool happened_before(GraphEvent a, GraphEvent b) const;
  // All that an event needed, itself included: its vector clock.
  Counts clock(GraphEvent event) const;

  // What the event itself needs of other processes.
  std::vector<GraphEvent> needs(GraphEvent event) const;
  // The last edge into the process whose `to` is one of its first `count` events; none: nothing came that
  // far.
  std::optional<GraphEdge> last_into(uint32_t process, EventCount count) const;
  // All edges, in an order in which everything comes behind what it needs.
  void in_order(const std::function<void(const GraphEdge&)>& each) const { run(each); }

 private:
  // An edge, at the process that it leads to.
  struct Need {
    EventCount at;     // its event
    uint32_t process;  // what it needs
    EventCount index;
  };
  // All edges into one process, by `at`. `sums` has a row for every `kBlock` edges: of each process, how many
  // of its events the edges up to there need. With it a prefix of any length is answered from one row and
  // less than a block of edges.
  struct Needs {
    std::vector<Need> edges;
    std::vector<EventCount> sums;
    std::vector<uint32_t> dependents;  // processes that need something of this one
  };

  size_t edges_before(uint32_t process, EventCount count) const;
  std::optional<size_t> first_unmet(uint32_t process, size_t end, const Counts& counts) const;
  bool is_met(const Needs& needs, size_t block, const Counts& counts) const;
  const EventCount* row(const Needs& needs, size_t block) const;  // behind the first `block` blocks
  void raise(GraphCut& cut, const Counts& inside) const;
  GraphEdge edge(uint32_t process, const Need& need) const;
  // Every process goes on for as long as it has what it needs. For each process the edge that it stops at in
  // the end, as its place in `Needs::edges`; none does but where there is a circle.
  std::vector<size_t> run(const std::function<void(const GraphEdge&)>& each) const;
  [[noreturn]] void tell_circle(const std::vector<size_t>& stopped,
                                const std::function<std::string(GraphEvent)>& name) const;

  std::vector<EventCount> lengths_;
  std::vector<Needs> needs_;
  uint64_t edges_ = 0;
  size_t block_ = 0;  // edges of a row of sums
};

}  // namespace backstep::cluster
