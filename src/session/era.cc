// The edges of an era, found in the logs.
#include "session/era.h"

#include <fmt/format.h>

#include "base/error.h"
#include "timeline/log_index.h"
#include "timeline/wall_clock.h"

namespace backstep::session {

using recording::Event;
using timeline::MomentName;
using timeline::point_text;

Era::Era(const recording::Recording& recording, uint64_t process, const std::string& from,
         const std::string& to)
    : recording_(recording),
      from_(edge(recording, process, from, true)),
      to_(edge(recording, process, to, false)) {}

Era::Edge Era::edge(const recording::Recording& recording, uint64_t process, const std::string& text,
                    bool end_counts) const {
  Edge edge;
  if (text.empty()) return edge;
  const MomentName moment = timeline::parse_moment(text, recording);
  edge.process = moment.process.value_or(process);
  if (moment.kind == MomentName::Start && end_counts) return edge;
  if (moment.kind == MomentName::End && !end_counts) return edge;
  if (moment.kind == MomentName::Time) {
    edge.ns = moment.ns;
    return edge;
  }
  const timeline::LogIndex log(recording, edge.process);
  const timeline::Moment& last = log.last();
  switch (moment.kind) {
    case MomentName::Event:
      if (moment.event >= log.events() - log.own())
        throw Error(fmt::format("there is no event {}: process #{} has events 0 to {}", moment.event,
                                edge.process, log.events() - log.own() - 1),
                    kExitUsage);
      edge.event = moment.event;
      break;
    case MomentName::Percent:
      edge.point = ControlPoint{static_cast<Tick>(static_cast<double>(last.tick) * moment.percent / 100), 0};
      if (moment.percent >= 100) edge.point = ControlPoint{last.tick, last.pc};
      break;
    case MomentName::End:
      edge.point = ControlPoint{last.tick, last.pc};
      break;
    case MomentName::Point:
      if (moment.point.tick > last.tick)
        throw Error(fmt::format("there is no {}: process #{} ends at {}",
                                point_text(moment.point.tick, moment.point.pc), edge.process,
                                point_text(last.tick, last.pc)),
                    kExitUsage);
      edge.point = moment.point;
      break;
    default:
      edge.point = ControlPoint{};
      break;
  }
  return edge;
}

bool Era::is_behind_time(const Edge& edge, uint64_t process, const Event& event) {
  auto [known, fresh] = ticks_.try_emplace({*edge.ns, process});
  if (fresh) {
    const timeline::LogIndex log(recording_, process);
    const timeline::WallClock clock(log, recording_.manifest(), timeline::end_ns(recording_, process));
    if (*edge.ns <= clock.last_ns()) known->second = clock.at_time(*edge.ns).tick;
  }
  return known->second && event.tick >= *known->second;
}

// Has the log come to the edge with this event?
bool Era::is_behind(Edge& edge, uint64_t process, const Event& event) {
  if (edge.ns) return is_behind_time(edge, process, event);
  if (edge.reached || process != edge.process) return edge.reached;
  if (edge.event) {
    edge.reached = event.number >= *edge.event;
  } else {
    // Within a tick control only goes to higher addresses.
    const ControlPoint& point = *edge.point;
    edge.reached = event.tick > point.tick || (event.tick == point.tick && event.pc >= point.pc);
  }
  return edge.reached;
}

Era::Side Era::side(uint64_t process, const Event& event) {
  if (to_.given() && is_behind(to_, process, event)) return Side::Behind;
  if (from_.given() && !is_behind(from_, process, event)) return Side::Before;
  return Side::Within;
}

}  // namespace backstep::session
