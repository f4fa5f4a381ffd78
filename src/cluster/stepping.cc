#include "cluster/stepping.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "session/stepping.h"

namespace backstep::cluster {
namespace {

using session::Session;
using timeline::Arrival;

Error stuck(const std::string& name, bool back) {
  return Error(fmt::format("{} {}", name, back ? "is where it began" : "is at its end"), kExitUsage);
}

void step_instruction(Session& s, const std::string& name, bool back) {
  const int tid = s.timeline().present().state().tid;
  const Arrival arrival = back ? s.timeline().step_back(tid) : s.timeline().step(tid, 0, 0, {});
  if (arrival.why == Arrival::End || arrival.why == Arrival::Begin) throw stuck(name, back);
}

Place step_message(const Causality& causality, Breaking& breaking, ProcessId process, const Place& from,
                   bool back) {
  EventCount count =
      from.state == Place::Ended ? causality.length(process) : causality.count_at(process, from.at);
  if (!back) {
    if (count == causality.length(process)) throw stuck(causality.history().processes[process].name, false);
    return breaking.earliest(process, count + 1);
  }
  if (count <= 1) throw stuck(causality.history().processes[process].name, true);
  return breaking.latest(process, count - 1);
}

}  // namespace

std::optional<Step> step_named(const std::string& name) {
  if (name == "line") return Step::Line;
  if (name == "stepi") return Step::Instruction;
  if (name == "finish") return Step::Finish;
  if (name == "message") return Step::Message;
  return std::nullopt;
}

Place step(const Causality& causality, Breaking& breaking, Sessions& sessions, ProcessId process,
           const Place& from, Step step, bool back) {
  const std::string& name = causality.history().processes[process].name;
  if (from.state == Place::Unborn)
    throw Error(fmt::format("{} has not been created yet there", name), kExitUsage);
  if (from.state == Place::Ended && !back) throw stuck(name, false);
  if (step == Step::Message) return step_message(causality, breaking, process, from, back);
  Session& s = sessions.at(process, from);
  const replayer::Position before = s.timeline().now();
  switch (step) {
    case Step::Line:
      session::Stepper(s, true).step(session::Step::Over, back);
      break;
    case Step::Finish:
      session::Stepper(s, true).step(session::Step::Out, back);
      break;
    default:
      step_instruction(s, name, back);
  }
  Place place;
  place.at = s.timeline().now();
  if (place.at == before) throw stuck(name, back);
  return place;
}

Cut stepped(Breaking& breaking, const Cut& cut, ProcessId process, const Place& place, bool optimistic,
            bool back) {
  constexpr const char* kStepped = "stepped";
  const Breakpoint here{process, place.at, kStepped, 1};
  // Who was stopped at a breakpoint of the user's stays there; who was only stepped goes on.
  std::vector<Breakpoint> others;
  for (const Breakpoint& b : cut.breakpoints)
    if (b.process != process && b.spec != kStepped && cut.places[b.process].stopped) others.push_back(b);
  if (optimistic) {
    others.push_back(here);
    return breaking.optimistic(others);
  }
  Cut next = back ? breaking.optimistic({here}, &cut) : breaking.causal({here}, &cut);
  next.kind = Cut::Causal;
  for (const Breakpoint& b : others)
    if (next.places[b.process].stopped) next.breakpoints.push_back(b);
  return next;
}

}  // namespace backstep::cluster
