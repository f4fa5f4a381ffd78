// `backstep dump`: the log, one event per line. It streams: the first line of a huge log comes at once, and
// `| head` costs nothing.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/options.h"
#include "cli/places.h"
#include "events/event_text.h"
#include "recording/library.h"
#include "recording/ordered_log.h"
#include "recording/tree.h"
#include "timeline/times.h"
#include "timeline/wall_clock.h"

namespace backstep::cli {
namespace {

using recording::Event;

struct DumpOptions {
  std::string dir;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  uint64_t from = 0;
  std::vector<std::string> kinds;  // kinds or names; empty: all
  size_t strings = 32;
  uint64_t process = 1;
  bool pc = false;
  bool clock = false;
  bool all = false;
  bool failed = false;
  std::string grep;
  bool json = false;

  bool wants(const Event& event) const {
    if (event.number < from) return false;
    if (failed && !events::has_failed(event)) return false;
    if (!grep.empty() && events::event_text(event, strings).find(grep) == std::string::npos) return false;
    if (kinds.empty()) return true;
    std::string kind = events::kind_name(event.kind), name = events::event_name(event);
    return std::any_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k == kind || k == name; });
  }
};

// A name that no event can have would print nothing, which says that there are none.
void check_kinds(const DumpOptions& options) {
  if (options.kinds.empty()) return;
  const std::vector<std::string> names = events::event_names();
  for (const std::string& kind : options.kinds)
    if (std::find(names.begin(), names.end(), kind) == names.end())
      throw Error(
          fmt::format("there is no kind of event and no system call '{}'{}", kind, did_you_mean(kind, names)),
          kExitUsage);
}

// What is known of events beyond the log of their process: when they were, and which code was executed where
// a thread lost its turn.
class Surroundings {
 public:
  Surroundings(recording::Library library, const recording::Recording& recording, const DumpOptions& options)
      : library_(std::move(library)), recording_(recording), options_(options) {}

  // Each event, in order, also those that are not shown.
  void see(uint64_t process, const Event& event) {
    if (event.kind == recording::EventKind::Map) places(process).add(event);
  }
  // "14:03:22.512345", about.
  std::optional<int64_t> time(uint64_t process, const Event& event) {
    if (!options_.clock) return std::nullopt;
    auto [clock, fresh] = clocks_.try_emplace(process);
    if (fresh)
      clock->second.emplace(timeline::LogIndex(recording_, process), recording_.manifest(),
                            timeline::end_ns(recording_, process));
    return clock->second->at_tick(event.tick).ns;
  }
  std::optional<symbols::Place> place(uint64_t process, const Event& event) {
    const bool turn = event.kind == recording::EventKind::Turn &&
                      static_cast<recording::TurnReason>(event.nr) == recording::TurnReason::Preempted;
    if (!turn && event.kind != recording::EventKind::Signal) return std::nullopt;
    const Places::Found found = places(process).find(event.pc);
    return found.place.function.empty() ? std::nullopt : std::optional(found.place);
  }

 private:
  Places& places(uint64_t process) {
    auto [known, fresh] = places_.try_emplace(process, library_, recording_);
    if (fresh) known->second.add_ancestors(recording::LogFile(recording_.log_path(process)).header());
    return known->second;
  }

  recording::Library library_;
  const recording::Recording& recording_;
  const DumpOptions& options_;
  std::map<uint64_t, Places> places_;
  std::map<uint64_t, std::optional<timeline::WallClock>> clocks_;
};

void print_event(const Event& event, uint64_t process, const DumpOptions& options, Surroundings& around) {
  const auto time = around.time(process, event);
  const auto place = around.place(process, event);
  if (options.json) {
    Json j = events::event_json(event, options.strings);
    j["process"] = process;
    if (time) j["time_ns"] = *time;
    if (place) {
      j["function"] = to_utf8(place->function);
      if (place->line) j["file"] = to_utf8(place->file), j["line"] = place->line;
    }
    fmt::print("{}\n", j.dump());
    return;
  }
  if (options.all)
    fmt::print("{:>8}  ", event.order ? std::to_string(event.order.number()) : std::string("."));
  std::string at = options.pc ? format_point({event.tick, event.pc}) : fmt::format("@{}", event.tick);
  std::string text = events::event_text(event, options.strings);
  if (place) text += " in " + printable(place->text());
  fmt::print("{:>8}  {:<{}}  {}{}.{}  {}  [{} B]\n", event.number, at, options.pc ? 26 : 12,
             time ? timeline::time_text(*time) + "  " : "", process, event.thread, text, event.size);
}

int dump_all(const recording::Recording& r, const DumpOptions& options, Surroundings& around) {
  recording::OrderedLogs logs(r, true);
  if (logs.by_time())
    fmt::print(
        stderr,
        "backstep: an older Backstep recorded this, without order numbers: events are in the order of the "
        "times at which parts of the logs were begun\n");
  uint64_t shown = 0;
  while (shown < options.limit) {
    const recording::OrderedLog* log = logs.next();
    if (!log) break;
    around.see(log->number(), log->event());
    if (!options.wants(log->event())) continue;
    print_event(log->event(), log->number(), options, around);
    shown++;
  }
  for (const auto& damage : logs.damage())
    fmt::print(stderr, "backstep: process #{}: {}\n", damage.number, damage.text);
  return logs.damage().empty() ? 0 : kExitDivergence;
}

}  // namespace

int dump_command(const Args& args) {
  DumpOptions options;
  std::string process;
  CommandLine line(
      "dump", "[options] [DIR]",
      "Prints the log of a recording, one event per line: number, tick, process.thread, what happened\n"
      "(system calls with decoded arguments, as strace does) and its size in the log.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep dump | less\n"
      "  backstep dump -k openat -k read sort-1\n"
      "  backstep dump --failed --grep /etc/\n"
      "  backstep dump --from 1000 -n 20 --pc\n"
      "  backstep dump --all -k write -k read make-1\n"
      "  backstep dump --clock -k turn         who lost the turn when, and where\n"
      "  backstep dump --json | jq 'select(.result < 0)'");
  line.add_option("-n,--limit", options.limit, "at most N events").type_name("N");
  line.add_option("--from", options.from, "start at the event with this number").type_name("EVENT");
  line.add_option("-k,--kind", options.kinds,
                  "only this kind (syscall, instr, signal, map, memory, start,\n"
                  "checksum, note, end, turn) or this system call; can be repeated")
      .type_name("KIND")
      .one_value_each();
  line.add_flag("--failed", options.failed, "only system calls that answered with an error");
  line.add_option("--grep", options.grep, "only events in whose text this is").type_name("TEXT");
  line.add_option("-s,--strings", options.strings, "bytes shown of strings and buffers (32)").type_name("N");
  line.add_option("-p,--process", process, "the log of this process: a pid, or #N as in 'backstep ps'")
      .type_name("PID|#N");
  line.add_flag("-a,--all", options.all,
                "the events of all processes, in their order: the first column is\n"
                "the order number, where an event has one");
  line.add_flag("--clock", options.clock,
                "when it was, in local time: known where the program looked at a\n"
                "clock, in between as the ticks go");
  line.add_flag("--pc", options.pc, "show whole control points, @TICK:0xPC");
  line.add_flag("--json", options.json, "one JSON object per line");
  line.add_option("DIR", options.dir);
  if (auto status = line.parse_args(args)) return *status;
  check_kinds(options);

  const recording::Library library = recording::Library::standard();
  const recording::Recording r = library.resolve(options.dir);
  Surroundings around(library, r, options);
  if (options.all) {
    if (!process.empty() || options.from)
      throw Error("--all is about all processes: it goes with neither -p nor --from", kExitUsage);
    return dump_all(r, options, around);
  }
  if (!process.empty()) options.process = recording::find_process(r, process);
  if (recording::is_without_events(r, options.process)) {
    fmt::print(stderr, "backstep: process #{} was killed before its first event\n", options.process);
    return 0;
  }
  recording::LogReader log(r.log_path(options.process), recording::first_thread(r, options.process));
  Event event;
  uint64_t shown = 0, events = 0;
  while (shown < options.limit && log.next(event)) {
    events = event.number + 1;
    around.see(options.process, event);
    if (!options.wants(event)) continue;
    print_event(event, options.process, options, around);
    shown++;
  }
  if (shown < options.limit && options.from && options.from >= events)
    throw Error(fmt::format("there is no event {}: the last one is {}", options.from, events - 1),
                kExitUsage);
  if (auto damage = log.damage()) throw Error(*damage, kExitDivergence);
  return 0;
}

}  // namespace backstep::cli
