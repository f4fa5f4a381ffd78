// Points of the history that are one event of a log (a call that got bytes of two messages) are one event of
// the graph. Whatever is not tied to another process is left out: between two of these events a process
// cannot be told from outside to be further or less far.
#include "cluster/causality.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "guest/syscall_print.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

auto key(GraphEvent e) {
  return std::pair(e.process, e.index);
}

bool is_birth(const Edge& edge) {
  return edge.kind == Edge::Fork || edge.kind == Edge::Exec;
}

std::vector<EventCount> lengths_of(const std::vector<std::vector<Causality::Event>>& events) {
  std::vector<EventCount> lengths;
  for (const auto& e : events) lengths.push_back(static_cast<EventCount>(e.size()));
  return lengths;
}

}  // namespace

Causality::Causality(const History& history) : history_(history), graph_({}) {
  collect();
  graph_ = Graph(lengths_of(events_));
  tie();
  for (const Tie& t : ties_) graph_.add(t.from, t.to);
  graph_.finish([this](GraphEvent e) { return text(e); });
}

void Causality::collect() {
  events_.resize(history_.processes.size());
  auto inner = [&](const Point& p) {
    if (p && p.process < events_.size()) events_[p.process].push_back({Event::Inner, p});
  };
  for (const Transfer& t : history_.transfers)
    if (t.sent && t.received) inner(t.sent), inner(t.received);
  for (const Edge& e : history_.edges) {
    if (!e.from || !e.to) continue;
    inner(e.from);
    if (!is_birth(e)) inner(e.to);
  }
  for (ProcessId p = 0; p < events_.size(); p++) {
    auto& events = events_[p];
    auto number = [](const Event& e) { return e.point.at.event; };
    std::stable_sort(events.begin(), events.end(),
                     [&](const Event& a, const Event& b) { return number(a) < number(b); });
    events.erase(std::unique(events.begin(), events.end(),
                             [&](const Event& a, const Event& b) { return number(a) == number(b); }),
                 events.end());
    const ProcessOfRun& process = history_.processes[p];
    Point birth, end;
    birth.process = end.process = p;
    birth.at = process.begin, end.at = process.end;
    if (events.empty() || number(events.back()) < process.end.event) events.push_back({Event::End, end});
    events.back().kind = Event::End;
    events.insert(events.begin(), Event{Event::Birth, birth});
  }
}

EventCount Causality::count_at(ProcessId process, const replayer::Position& at) const {
  const auto& events = events_[process];
  const auto behind = std::partition_point(events.begin() + 1, events.end(),
                                           [&](const Event& e) { return e.point.at.event < at.event; });
  return static_cast<EventCount>(behind - events.begin());
}

GraphEvent Causality::find(const Point& point) const {
  if (!point || point.process >= events_.size()) return {kNone, 0};
  const EventCount i = count_at(point.process, point.at);
  const auto& events = events_[point.process];
  if (i >= events.size() || events[i].point.at.event != point.at.event) return {kNone, 0};
  return {point.process, i};
}

GraphEvent Causality::to_of(const Edge& edge) const {
  return is_birth(edge) ? GraphEvent{edge.to.process, 0} : find(edge.to);
}

void Causality::tie() {
  for (const Transfer& t : history_.transfers)
    if (t.sent && t.received) ties_.push_back({find(t.sent), find(t.received), {&t, nullptr}});
  for (const Edge& e : history_.edges)
    if (e.from && e.to) ties_.push_back({find(e.from), to_of(e), {nullptr, &e}});
  std::stable_sort(ties_.begin(), ties_.end(), [](const Tie& a, const Tie& b) {
    return std::pair(key(a.to), key(a.from)) < std::pair(key(b.to), key(b.from));
  });
  by_giver_.resize(ties_.size());
  for (size_t i = 0; i < ties_.size(); i++) by_giver_[i] = i;
  std::stable_sort(by_giver_.begin(), by_giver_.end(),
                   [&](size_t a, size_t b) { return key(ties_[a].from) < key(ties_[b].from); });
}

std::vector<Causality::Link> Causality::links_into(GraphEvent event) const {
  std::vector<Link> links;
  auto it =
      std::partition_point(ties_.begin(), ties_.end(), [&](const Tie& t) { return key(t.to) < key(event); });
  for (; it != ties_.end() && it->to == event; ++it) links.push_back(it->link);
  return links;
}

std::vector<Causality::Link> Causality::links_from(GraphEvent event) const {
  std::vector<Link> links;
  auto it = std::partition_point(by_giver_.begin(), by_giver_.end(),
                                 [&](size_t i) { return key(ties_[i].from) < key(event); });
  for (; it != by_giver_.end() && ties_[*it].from == event; ++it) links.push_back(ties_[*it].link);
  return links;
}

Causality::Link Causality::link(const GraphEdge& edge) const {
  const auto wanted = std::pair(key(edge.to), key(edge.from));
  auto it = std::partition_point(ties_.begin(), ties_.end(),
                                 [&](const Tie& t) { return std::pair(key(t.to), key(t.from)) < wanted; });
  return it != ties_.end() && it->to == edge.to && it->from == edge.from ? it->link : Link{};
}

std::string Causality::text(GraphEvent e) const {
  const std::string& process = history_.processes[e.process].name;
  const Event& what = event(e);
  if (what.kind == Event::Birth) return "the birth of " + process;
  const bool call = what.point.nr != 0xffff;
  if (what.kind == Event::End && !call) return "the end of " + process;
  return fmt::format("{}'s {} at {}", process, call ? guest::syscall_name(what.point.nr) : "event",
                     timeline::point_text(what.point.at.tick, what.point.at.pc));
}

std::string Causality::text(const Link& link) const {
  auto channel = [&](ChannelId id) {
    return id < history_.channels.size() ? " on " + history_.channels[id].name : "";
  };
  if (link.transfer)
    return fmt::format("{} byte{}{}", link.transfer->bytes, link.transfer->bytes == 1 ? "" : "s",
                       channel(link.transfer->channel));
  if (!link.edge) return "something";
  const std::string what = link.edge->what.empty() ? "" : " (" + link.edge->what + ")";
  switch (link.edge->kind) {
    case Edge::Fork:
      return "its creation" + what;
    case Edge::Exec:
      return "the program before it" + what;
    case Edge::Wait:
      return "the end of " + history_.processes[link.edge->from.process].name;
    case Edge::Signal:
      return link.edge->what.empty() ? "a signal" : link.edge->what;
    case Edge::Connect:
      return "the connection" + channel(link.edge->channel);
    case Edge::Listen:
      return "the listening socket" + channel(link.edge->channel);
    case Edge::Close:
      return "the end of what comes" + channel(link.edge->channel);
    case Edge::Shared:
      return link.edge->what.empty() ? "shared memory" : link.edge->what;
  }
  return "something";
}

}  // namespace backstep::cluster
