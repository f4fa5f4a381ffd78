#include "cluster/causal_path.h"

#include <algorithm>

namespace backstep::cluster {

std::vector<Hop> way_to(const Causality& causality, ProcessId process, EventCount count, size_t most) {
  std::vector<Hop> way;
  while (way.size() < most) {
    const auto edge = causality.graph().last_into(process, count);
    if (!edge) break;
    way.push_back({edge->from, edge->to, causality.link(*edge)});
    process = edge->from.process;
    count = edge->from.index;
  }
  std::reverse(way.begin(), way.end());
  return way;
}

std::vector<Hop> way_from(const Causality& causality, ProcessId process, EventCount count, size_t most) {
  std::vector<Hop> way;
  while (way.size() < most) {
    std::vector<Causality::Link> links;
    GraphEvent from{process, count};
    for (; from.index < causality.length(process) && links.empty(); from.index++) {
      links = causality.links_from(from);
      // What it gives to itself is no way on.
      std::erase_if(links, [&](const Causality::Link& l) {
        return (l.transfer ? l.transfer->received : l.edge->to).process == process;
      });
    }
    if (links.empty()) break;
    from.index--;
    const Causality::Link& link = links.front();
    const bool birth = link.edge && (link.edge->kind == Edge::Fork || link.edge->kind == Edge::Exec);
    const Point& got = link.transfer ? link.transfer->received : link.edge->to;
    const GraphEvent to = birth ? GraphEvent{got.process, 0} : causality.find(got);
    way.push_back({from, to, link});
    process = to.process;
    count = to.index + 1;
  }
  return way;
}

}  // namespace backstep::cluster
