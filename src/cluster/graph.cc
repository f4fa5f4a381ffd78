// Cuts without vector clocks at every event: those of 10^8 messages among 100 processes would be 80 GB. Kept
// are, for every few thousand edges into a process, the *direct* needs of all that the process has done up to
// there, as one number for each other process. What a prefix of a process needs is then one such row and less
// than a block of edges, and a cut is a fixed point over processes: whoever is taken further asks for what it
// needs now. No process is asked more often than there are processes, because an edge that led back to a
// process that was asked before would close a circle. That is some milliseconds for 10^8 messages, and the
// rows are made in one pass over the edges.
#include "cluster/graph.h"

#include <algorithm>
#include <deque>
#include <queue>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::cluster {
namespace {

constexpr size_t kLeastBlock = 4096;

// Processes that are to be looked at, each once at a time.
class Agenda {
 public:
  explicit Agenda(size_t processes) : waiting_(processes, false) {}
  void add(uint32_t process) {
    if (waiting_[process]) return;
    waiting_[process] = true;
    queue_.push_back(process);
  }
  std::optional<uint32_t> take() {
    if (queue_.empty()) return std::nullopt;
    const uint32_t process = queue_.front();
    queue_.pop_front();
    waiting_[process] = false;
    return process;
  }

 private:
  std::vector<bool> waiting_;
  std::deque<uint32_t> queue_;
};

}  // namespace

Graph::Graph(std::vector<EventCount> lengths)
    : lengths_(std::move(lengths)), needs_(lengths_.size()), block_(std::max(kLeastBlock, lengths_.size())) {}

void Graph::add(GraphEvent from, GraphEvent to) {
  for (const GraphEvent& e : {from, to})
    if (e.process >= lengths_.size() || e.index >= lengths_[e.process])
      throw Error(fmt::format("event {} of process {} does not exist", e.index, e.process));
  if (from.process == to.process && from.index < to.index)
    return;  // a process goes through its events in order
  needs_[to.process].edges.push_back({to.index, from.process, from.index});
  edges_++;
}

void Graph::finish(const std::function<std::string(GraphEvent)>& name) {
  Counts sum(lengths_.size(), 0);
  for (uint32_t p = 0; p < needs_.size(); p++) {
    Needs& needs = needs_[p];
    auto earlier = [](const Need& a, const Need& b) { return a.at < b.at; };
    if (!std::is_sorted(needs.edges.begin(), needs.edges.end(), earlier))
      std::stable_sort(needs.edges.begin(), needs.edges.end(), earlier);
    needs.edges.shrink_to_fit();
    needs.sums.clear();
    needs.sums.reserve(needs.edges.size() / block_ * lengths_.size());
    std::vector<uint32_t> givers;
    for (size_t i = 0; i < needs.edges.size(); i++) {
      const Need& n = needs.edges[i];
      if (!sum[n.process]) givers.push_back(n.process);
      sum[n.process] = std::max(sum[n.process], n.index + 1);
      if ((i + 1) % block_ == 0) needs.sums.insert(needs.sums.end(), sum.begin(), sum.end());
    }
    for (uint32_t q : givers) {
      sum[q] = 0;
      needs_[q].dependents.push_back(p);
    }
  }
  const std::vector<size_t> stopped = run({});
  for (uint32_t p = 0; p < needs_.size(); p++)
    if (stopped[p] < needs_[p].edges.size()) tell_circle(stopped, name);
}

GraphEdge Graph::edge(uint32_t process, const Need& need) const {
  return {{need.process, need.index}, {process, need.at}};
}

size_t Graph::edges_before(uint32_t process, EventCount count) const {
  const auto& edges = needs_[process].edges;
  return static_cast<size_t>(
      std::partition_point(edges.begin(), edges.end(), [&](const Need& n) { return n.at < count; }) -
      edges.begin());
}

const EventCount* Graph::row(const Needs& needs, size_t block) const {
  return needs.sums.data() + (block - 1) * lengths_.size();
}

// --- the order ---

std::vector<size_t> Graph::run(const std::function<void(const GraphEdge&)>& each) const {
  using Waiter = std::pair<EventCount, uint32_t>;  // an event, and who needs it
  using Waiters = std::priority_queue<Waiter, std::vector<Waiter>, std::greater<>>;
  std::vector<size_t> next(needs_.size(), 0);
  std::vector<Waiters> waiters(needs_.size());
  // How many of its events a process has behind it.
  auto done = [&](uint32_t p) {
    return next[p] < needs_[p].edges.size() ? needs_[p].edges[next[p]].at : lengths_[p];
  };
  Agenda agenda(needs_.size());
  for (uint32_t p = 0; p < needs_.size(); p++) agenda.add(p);
  while (const auto p = agenda.take()) {
    const auto& edges = needs_[*p].edges;
    size_t& i = next[*p];
    for (; i < edges.size() && done(edges[i].process) > edges[i].index; i++)
      if (each) each(edge(*p, edges[i]));
    if (i < edges.size()) waiters[edges[i].process].push({edges[i].index, *p});
    Waiters& waiting = waiters[*p];
    for (; !waiting.empty() && waiting.top().first < done(*p); waiting.pop())
      agenda.add(waiting.top().second);
  }
  return next;
}

void Graph::tell_circle(const std::vector<size_t>& stopped,
                        const std::function<std::string(GraphEvent)>& name) const {
  auto text = [&](GraphEvent e) {
    return name ? name(e) : fmt::format("event {} of process {}", e.index, e.process);
  };
  auto need_of = [&](uint32_t p) { return edge(p, needs_[p].edges[stopped[p]]); };
  uint32_t p = 0;
  while (stopped[p] == needs_[p].edges.size()) p++;
  // Who is stopped waits for somebody who is; so the way ends up in the circle.
  std::vector<bool> seen(needs_.size(), false);
  for (; !seen[p]; p = need_of(p).from.process) seen[p] = true;
  constexpr int kMostTold = 4;
  std::string circle;
  int told = 0;
  for (uint32_t q = p; (told == 0 || q != p) && told < kMostTold; q = need_of(q).from.process, told++)
    circle += fmt::format("{}{} needs {}", told ? "; " : "", text(need_of(q).to), text(need_of(q).from));
  throw Error(fmt::format("events need each other in a circle, which cannot have happened: {}{}", circle,
                          told == kMostTold ? "; …" : ""));
}

// --- cuts ---

GraphCut Graph::least(const Counts& inside) const {
  GraphCut cut{inside, std::vector<std::optional<GraphEdge>>(inside.size())};
  raise(cut, inside);
  return cut;
}

void Graph::raise(GraphCut& cut, const Counts& inside) const {
  constexpr uint32_t kNobody = ~0u;
  Counts& counts = cut.counts;
  std::vector<uint32_t> raised_by(counts.size(), kNobody);
  std::vector<size_t> asked(counts.size(), 0);  // edges of a process whose needs are met
  Agenda agenda(counts.size());
  for (uint32_t p = 0; p < counts.size(); p++)
    if (counts[p]) agenda.add(p);
  while (const auto p = agenda.take()) {
    const Needs& needs = needs_[*p];
    auto need = [&](uint32_t q, EventCount count) {
      if (count <= counts[q]) return;
      counts[q] = count;
      raised_by[q] = *p;
      agenda.add(q);
    };
    const size_t end = edges_before(*p, counts[*p]);
    const size_t blocks = std::min(end / block_, needs.sums.size() / std::max<size_t>(1, counts.size()));
    if (blocks && asked[*p] < blocks * block_) {
      const EventCount* sum = row(needs, blocks);
      for (uint32_t q = 0; q < counts.size(); q++) need(q, sum[q]);
      asked[*p] = blocks * block_;
    }
    for (; asked[*p] < end; asked[*p]++)
      need(needs.edges[asked[*p]].process, needs.edges[asked[*p]].index + 1);
  }
  // Which edge it was: the first one of who asked that needs so much.
  for (uint32_t q = 0; q < counts.size(); q++) {
    if (counts[q] == inside[q]) continue;
    const Needs& needs = needs_[raised_by[q]];
    size_t low = 0, high = needs.sums.size() / counts.size();  // rows that do not, that may
    while (low < high) {
      const size_t middle = (low + high) / 2;
      (row(needs, middle + 1)[q] < counts[q] ? low : high) =
          row(needs, middle + 1)[q] < counts[q] ? middle + 1 : middle;
    }
    for (size_t i = low * block_; i < needs.edges.size() && !cut.because[q]; i++)
      if (needs.edges[i].process == q && needs.edges[i].index + 1 == counts[q])
        cut.because[q] = edge(raised_by[q], needs.edges[i]);
  }
}

bool Graph::is_met(const Needs& needs, size_t block, const Counts& counts) const {
  const EventCount* sum = row(needs, block);
  for (size_t q = 0; q < counts.size(); q++)
    if (sum[q] > counts[q]) return false;
  return true;
}

// The first of the process's first `end` edges whose need is outside.
std::optional<size_t> Graph::first_unmet(uint32_t process, size_t end, const Counts& counts) const {
  const Needs& needs = needs_[process];
  size_t met = 0, unmet = end / block_ + 1;  // blocks: rows only become larger
  while (unmet - met > 1) {
    const size_t middle = (met + unmet) / 2;
    (is_met(needs, middle, counts) ? met : unmet) = middle;
  }
  for (size_t i = met * block_; i < end; i++)
    if (needs.edges[i].index >= counts[needs.edges[i].process]) return i;
  return std::nullopt;
}

GraphCut Graph::greatest(const Counts& bounds) const {
  GraphCut cut{bounds, std::vector<std::optional<GraphEdge>>(bounds.size())};
  Agenda agenda(bounds.size());
  for (uint32_t p = 0; p < bounds.size(); p++) agenda.add(p);
  while (const auto p = agenda.take()) {
    const auto unmet = first_unmet(*p, edges_before(*p, cut.counts[*p]), cut.counts);
    if (!unmet) continue;
    const Need& need = needs_[*p].edges[*unmet];
    cut.counts[*p] = need.at;
    cut.because[*p] = edge(*p, need);
    for (uint32_t q : needs_[*p].dependents) agenda.add(q);
  }
  return cut;
}

std::optional<GraphEdge> Graph::violation(const Counts& counts) const {
  for (uint32_t p = 0; p < counts.size(); p++)
    if (const auto unmet = first_unmet(p, edges_before(p, counts[p]), counts))
      return edge(p, needs_[p].edges[*unmet]);
  return std::nullopt;
}

// --- single events ---

Counts Graph::clock(GraphEvent event) const {
  Counts inside(lengths_.size(), 0);
  inside[event.process] = event.index + 1;
  return least(inside).counts;
}

bool Graph::happened_before(GraphEvent a, GraphEvent b) const {
  if (a.process == b.process) return a.index < b.index;
  return clock(b)[a.process] > a.index;
}

std::vector<GraphEvent> Graph::needs(GraphEvent event) const {
  const auto& edges = needs_[event.process].edges;
  std::vector<GraphEvent> all;
  for (size_t i = edges_before(event.process, event.index); i < edges.size() && edges[i].at == event.index;
       i++)
    all.push_back({edges[i].process, edges[i].index});
  return all;
}

std::optional<GraphEdge> Graph::last_into(uint32_t process, EventCount count) const {
  const size_t end = edges_before(process, count);
  if (!end) return std::nullopt;
  return edge(process, needs_[process].edges[end - 1]);
}

}  // namespace backstep::cluster
