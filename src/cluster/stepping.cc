// Steps by lines are runs to the next beginning of a line of the same function. A call in between may come to
// the same lines again, deeper in the stack: so the depth decides.
#include "cluster/stepping.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "session/modules.h"
#include "session/present.h"

namespace backstep::cluster {
namespace {

using replayer::Tap;
using session::Session;
using timeline::Arrival;

// The innermost function that is not in a library of the system's: whoever steps through a program means
// that, also where the program stands in a call of it.
struct Frame {
  int tid = 0;
  size_t depth = 0;  // functions around it; inlined ones are not counted
  Address pc = 0, caller = 0;
  std::string file;
  int line = 0;
};

bool is_own(Session& s, Address pc) {
  const symbols::Module* module = s.program().module_at(pc);
  return module && !session::is_of_the_system(module->name);
}

Frame frame_now(Session& s) {
  Frame f;
  f.tid = s.timeline().present().state().tid;
  bool complete = false;
  const auto stack = session::Present(s).stack(f.tid, &complete);
  if (stack.empty()) return f;
  auto own = std::find_if(stack.begin(), stack.end(), [&](const auto& frame) { return is_own(s, frame.pc); });
  if (own == stack.end()) own = stack.begin();
  f.pc = own->pc, f.file = own->file, f.line = own->line;
  // An inlined function is a part of the next frame.
  const auto real = std::find_if(own, stack.end(), [](const auto& frame) { return !frame.inlined; });
  if (real == stack.end()) return f;
  f.depth = static_cast<size_t>(
      std::count_if(real + 1, stack.end(), [](const auto& frame) { return !frame.inlined; }));
  if (real + 1 != stack.end()) f.caller = (real + 1)->pc;
  return f;
}

// Where lines of the function around `pc` begin.
timeline::Taps line_starts(Session& s, Address pc) {
  timeline::Taps taps;
  const auto function = s.program().function_at(pc);
  const symbols::Module* module = s.program().module_at(pc);
  if (!function || !module) return taps;
  for (const auto& code : s.program().line_table(*module))
    if (code.line && std::any_of(function->ranges.begin(), function->ranges.end(), [&](const auto& range) {
          return code.start >= range.first && code.start < range.second;
        }))
      taps.stop_at(code.start);
  return taps;
}

Error stuck(const std::string& name, bool back) {
  return Error(fmt::format("{} {}", name, back ? "is where it began" : "is at its end"), kExitUsage);
}

// Runs to a place of `taps` that `is_it` says yes to; false: there is none before the end, or the beginning.
template <typename IsIt>
bool run_to(Session& s, const timeline::Taps& taps, bool back, const IsIt& is_it) {
  while (true) {
    const Arrival arrival = back ? s.timeline().backward(taps) : s.timeline().forward(taps);
    if (arrival.why != Arrival::Break) return false;
    if (is_it(frame_now(s))) return true;
  }
}

void step_line(Session& s, bool back) {
  const Frame from = frame_now(s);
  timeline::Taps taps = line_starts(s, from.pc);
  if (!back && from.caller) taps.stop_at(from.caller);
  const auto is_next = [&](const Frame& f) {
    if (f.tid != from.tid || f.depth > from.depth) return false;
    return f.depth < from.depth || f.line != from.line || f.file != from.file || back;
  };
  if (!taps.list.empty() && run_to(s, taps, back, is_next)) return;
  if (!back) s.timeline().go_to_end();
}

void step_out(Session& s, bool back) {
  const Frame from = frame_now(s);
  timeline::Taps taps;
  if (back) {
    const auto function = s.program().function_at(from.pc);
    if (!function) throw Error("it is not known which function this is");
    taps.stop_at(function->entry);
    if (s.timeline().now().pc != function->entry &&
        !run_to(s, taps, true, [&](const Frame& f) { return f.tid == from.tid && f.depth == from.depth; }))
      return;
    s.timeline().step_back(from.tid);
    return;
  }
  if (!from.caller) throw Error("nothing is known to have called this function");
  taps.stop_at(from.caller);
  if (!run_to(s, taps, false, [&](const Frame& f) { return f.tid == from.tid && f.depth < from.depth; }))
    s.timeline().go_to_end();
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
      step_line(s, back);
      break;
    case Step::Finish:
      step_out(s, back);
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
