// One pass over the log. The manifest says how a run ended only if the recorder lived to write it; the log
// itself always knows more, so everything here comes from the log, and the manifest's word is used by `info`
// just for what the log does not hold (duration, machine).
#include "cli/summary.h"

#include "base/error.h"
#include "events/event_text.h"
#include "guest/syscall_table.h"

namespace backstep::cli {

using recording::EndKind;
using recording::Event;
using recording::EventKind;
using recording::LogReader;

namespace {

void count(const Event& event, Summary& s) {
  auto add = [&](Tally& tally) {
    tally.count++;
    tally.bytes += event.size;
    // The kernel's error range.
    tally.errors += event.kind == EventKind::Syscall && event.result < 0 && event.result >= -4095 &&
                    event.result != guest::kNotMade;
  };
  s.events++;
  s.bytes += event.size;
  s.ticks = std::max(s.ticks, event.tick);
  s.inexact += (event.flags & recording::kInexact) != 0;
  add(s.kinds[events::kind_name(event.kind)]);
  switch (event.kind) {
    case EventKind::Syscall:
      // One that was put off is made, and counted, later.
      if (event.result != guest::kNotMade) add(s.syscalls[events::event_name(event)]);
      break;
    case EventKind::Instr:
      add(s.instructions[events::event_name(event)]);
      break;
    case EventKind::Signal:
      add(s.signals[events::event_name(event)]);
      break;
    case EventKind::Note:
      s.notes[event.text]++;
      break;
    default:
      break;
  }
}

}  // namespace

Summary summarize(const recording::Library& library, const recording::Recording& recording,
                  uint64_t process) {
  Summary s;
  Places places(library, recording);
  try {
    LogReader log(recording.log_path(process));
    places.add_ancestors(log.file().header());
    Event event;
    while (log.next(event)) {
      count(event, s);
      places.add(event);
      if (event.kind != EventKind::End) continue;
      s.end = recording::Manifest::End{event.end, event.result, 0, event.tick, 0, {}};
      if (event.end == EndKind::Signal) s.crash = ControlPoint{event.tick, event.pc};
    }
    if (auto damage = log.damage()) s.damage.push_back(*damage);
  } catch (const Error& e) {
    s.damage.emplace_back(e.what());
  }
  if (recording.processes().empty()) s.damage.emplace_back("there is no log");
  if (s.end) s.end->events = s.events;
  if (s.crash) {
    s.end->crash = s.crash;
    s.place = places.find(s.crash->pc);
  }
  return s;
}

}  // namespace backstep::cli
