// A count of events is not a place yet: between two events of the graph a process runs on by itself.
// Pessimistic is the earliest place (directly behind the last event that is needed), optimistic the latest
// (in front of the first one that cannot happen, or its end).
#include "cluster/breaking.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

using recording::EventKind;
using replayer::Position;

constexpr Address kSyscallBytes = 2;  // also of int 0x80 and sysenter

std::string point(const Position& at) {
  return timeline::point_text(at.tick, at.pc);
}

}  // namespace

const timeline::LogIndex& Breaking::log(ProcessId process) {
  auto& log = logs_[process];
  if (!log) {
    const History& h = causality_.history();
    const recording::Recording recording(h.hosts[h.processes[process].host].recording);
    log = std::make_unique<timeline::LogIndex>(recording, h.processes[process].log);
  }
  return *log;
}

bool Breaking::has_parent(ProcessId process) const {
  return !causality_.links_into({process, 0}).empty();
}

// Processes that nobody in the run has made are there from the start.
Counts Breaking::no_counts() const {
  Counts counts(causality_.graph().processes(), 0);
  for (ProcessId p = 0; p < counts.size(); p++) counts[p] = has_parent(p) ? 0 : 1;
  return counts;
}

Counts Breaking::all_counts() const {
  Counts counts;
  for (ProcessId p = 0; p < causality_.graph().processes(); p++) counts.push_back(causality_.length(p));
  return counts;
}

// --- places ---

Position Breaking::behind(ProcessId process, EventCount count) {
  const Causality::Event& event = causality_.event({process, count - 1});
  if (event.kind != Causality::Event::Inner) return event.point.at;
  const uint64_t number = event.point.at.event;
  const auto moment = log(process).at(number);
  if (moment && moment->kind == EventKind::Syscall && moment->made && moment->pc)
    return {moment->tick, number + 1, moment->pc + kSyscallBytes};
  // A call that had to wait: where it gave the turn away, and another thread goes on.
  if (moment && moment->kind == EventKind::Turn) return {moment->tick + 1, number + 1, 0};
  const auto next = log(process).next_moment(number + 1, [](const timeline::Moment&) { return true; });
  return next ? Position{next->tick, number + 1, next->pc} : causality_.history().processes[process].end;
}

Place Breaking::earliest(ProcessId process, EventCount count) {
  const ProcessOfRun& p = causality_.history().processes[process];
  Place place;
  if (count == 0) {
    place.state = has_parent(process) ? Place::Unborn : Place::Running;
    place.at = p.begin;
    return place;
  }
  if (count == causality_.length(process)) {
    place.state = Place::Ended;
    place.at = p.end;
    return place;
  }
  place.at = behind(process, count);
  return place;
}

Place Breaking::latest(ProcessId process, EventCount count) const {
  const ProcessOfRun& p = causality_.history().processes[process];
  Place place;
  place.at = p.end;
  if (count == 0) {
    place.state = Place::Unborn;
    place.at = p.begin;
  } else if (count == causality_.length(process)) {
    place.state = Place::Ended;
  } else {
    place.at = causality_.event({process, count}).point.at;
  }
  return place;
}

// --- cuts ---

std::string Breaking::needed_text(const GraphEdge& edge) const {
  return fmt::format("{} needed {} from here", causality_.text(edge.to),
                     causality_.text(causality_.link(edge)));
}

std::string Breaking::waits_text(const GraphEdge& edge) const {
  return fmt::format("waits for {}: {} has not happened", causality_.text(causality_.link(edge)),
                     causality_.text(edge.from));
}

void Breaking::check_possible(const std::vector<Breakpoint>& breakpoints, const Counts& asked,
                              const GraphCut& cut) const {
  for (const Breakpoint& b : breakpoints) {
    if (cut.counts[b.process] <= asked[b.process]) continue;
    const std::string& name = causality_.history().processes[b.process].name;
    throw Error(
        fmt::format(
            "the breakpoints cannot be held together: {} stops at {}, but {}; leave one of them out, or "
            "take --optimistic, which lets the other wait",
            name, point(b.at), needed_text(*cut.because[b.process])),
        kExitUsage);
  }
}

Cut Breaking::causal(const std::vector<Breakpoint>& breakpoints, const Cut* base) {
  Counts inside = no_counts();
  const Counts before = base ? counts_of(causality_, *base) : inside;
  for (ProcessId p = 0; p < inside.size(); p++) inside[p] = std::max(inside[p], before[p]);
  for (const Breakpoint& b : breakpoints) inside[b.process] = causality_.count_at(b.process, b.at);
  const GraphCut least = causality_.graph().least(inside);
  check_possible(breakpoints, inside, least);
  Cut cut;
  cut.kind = Cut::Causal;
  cut.breakpoints = breakpoints;
  for (ProcessId p = 0; p < inside.size(); p++) {
    const auto& because = least.because[p];
    if (!because && base) {
      cut.places.push_back(base->places[p]);
      continue;
    }
    cut.places.push_back(earliest(p, least.counts[p]));
    cut.places.back().why = because                                    ? needed_text(*because)
                            : cut.places.back().state == Place::Unborn ? "nothing needed it yet"
                                                                       : "nothing that it did was needed yet";
  }
  for (const Breakpoint& b : breakpoints) {
    Place& place = cut.places[b.process];
    place = {};
    place.at = b.at;
    place.stopped = true;
    place.why = b.spec;
  }
  return cut;
}

Cut Breaking::optimistic(const std::vector<Breakpoint>& breakpoints, const Cut* bounds) {
  Counts most = bounds ? counts_of(causality_, *bounds) : all_counts();
  for (const Breakpoint& b : breakpoints) most[b.process] = causality_.count_at(b.process, b.at);
  const GraphCut greatest = causality_.graph().greatest(most);
  Cut cut;
  cut.kind = Cut::Optimistic;
  cut.breakpoints = breakpoints;
  for (ProcessId p = 0; p < most.size(); p++) {
    const auto& because = greatest.because[p];
    if (!because && bounds) {
      cut.places.push_back(bounds->places[p]);
      continue;
    }
    Place place = latest(p, greatest.counts[p]);
    const bool cut_off = causality_.history().processes[p].cut_off;
    if (because)
      place.why = waits_text(*because), place.waits = true;
    else if (place.state == Place::Ended)
      place.why = cut_off ? "its recording ends here" : "runs to its end";
    cut.places.push_back(place);
  }
  for (const Breakpoint& b : breakpoints) {
    Place& place = cut.places[b.process];
    if (greatest.because[b.process]) {
      place.why = fmt::format("does not come to {}: {}", b.spec, place.why);
      continue;
    }
    place = {};
    place.at = b.at;
    place.stopped = true;
    place.why = b.spec;
  }
  return cut;
}

Cut Breaking::start() {
  Cut cut = causal({});
  cut.kind = Cut::Mark;
  cut.name = "start";
  return cut;
}

Cut Breaking::alive() {
  std::vector<Breakpoint> ends;
  for (ProcessId p = 0; p < causality_.history().processes.size(); p++)
    if (const auto& told = causality_.history().processes[p].told_to_end)
      ends.push_back({p, told->at, told->signal + " from outside", 1});
  Cut cut = optimistic(ends);
  cut.kind = Cut::Mark;
  cut.name = "alive";
  return cut;
}

Cut Breaking::end() {
  Cut cut = optimistic({});
  cut.kind = Cut::Mark;
  cut.name = "end";
  return cut;
}

}  // namespace backstep::cluster
