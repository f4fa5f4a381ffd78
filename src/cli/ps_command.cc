// `backstep ps`: the processes of a recording, as a tree. From headers and manifests alone, except for
// processes that were killed: what those came to is found in their logs.
#include <signal.h>

#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using recording::Birth;
using recording::EndKind;
using recording::ProcessInfo;

// A recorder that was killed wrote no end; its log tells how far it came.
void complete_from_log(const recording::Recording& r, ProcessInfo& info, Tick& ticks, uint64_t& events) {
  if (info.end) {
    ticks = info.end->ticks;
    events = info.end->events;
    return;
  }
  try {
    recording::LogReader log(r.log_path(info.number));
    recording::Event event;
    while (log.next(event)) {
      ticks = std::max(ticks, event.tick);
      events++;
      if (event.kind == recording::EventKind::End)
        info.end = recording::Manifest::End{event.end, event.result, 0, event.tick, events, {}};
    }
  } catch (const Error&) {
    info.damaged = !info.empty;
  }
}

std::string end_of(const ProcessInfo& info) {
  if (info.empty) return "empty";
  if (info.damaged) return "damaged";
  if (!info.end) return "-";
  switch (info.end->kind) {
    case EndKind::Exit:
      return fmt::format("exit {}", info.end->status);
    case EndKind::Signal: {
      const char* name = sigabbrev_np(static_cast<int>(info.end->status));
      return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", info.end->status);
    }
    case EndKind::Exec:
      return info.end->status ? fmt::format("exec {}", info.end->status) : "exec";
    case EndKind::Stopped:
      return "stopped";
  }
  return "?";
}

}  // namespace

int ps_command(const Args& args) {
  bool json = false;
  std::string dir;
  CommandLine line(
      "ps", "[--json] [DIR]",
      "Lists the processes of a recording: number, pid, how it began (start; fork: as a copy of\n"
      "its parent; exec: a new program in the same process; spawn: a new program in a new\n"
      "process, by vfork or posix_spawn), end, ticks, events, command.\n"
      "'replay -p PID' replays one of them.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep ps\n"
      "  backstep replay --autopilot -p 4711\n"
      "  backstep ps --json make-1 | jq '.[] | select(.end.kind == \"signal\")'");
  line.add_flag("--json", json, "as JSON");
  line.add_option("DIR", dir);
  if (auto status = line.parse_args(args)) return *status;
  const auto r = recording::Library::standard().resolve(dir);

  std::map<uint64_t, std::vector<ProcessInfo>> children;  // by parent, ascending
  for (const ProcessInfo& info : recording::list_processes(r)) children[info.parent].push_back(info);
  Table table({">NUMBER", ">PID", "BORN", "END", ">TICKS", ">EVENTS", "COMMAND"});
  Json all = Json::array();
  std::function<void(uint64_t, int)> walk = [&](uint64_t parent, int depth) {
    for (ProcessInfo info : children[parent]) {
      Tick ticks = 0;
      uint64_t events = 0;
      complete_from_log(r, info, ticks, events);
      const int indent = info.birth == Birth::Exec && !info.spawned ? depth - 1 : depth;
      const char* born = recording::birth_name(info);
      table.add({std::to_string(info.number), std::to_string(info.pid), born, end_of(info),
                 format_count(ticks), format_count(events),
                 std::string(static_cast<size_t>(2 * std::max(indent, 0)), ' ') +
                     shorten(format_command(info.argv), 70)});
      Json j = {
          {"number", info.number},      {"pid", info.pid}, {"born", born},     {"parent", info.parent},
          {"event", info.parent_event}, {"ticks", ticks},  {"events", events}, {"damaged", info.damaged},
          {"argv", Json::array()}};
      for (const std::string& a : info.argv) j["argv"].push_back(to_utf8(a));
      j["end"] = info.end ? end_json(*info.end) : Json();
      all.push_back(j);
      if (info.number != parent) walk(info.number, indent + 1);
    }
  };
  walk(0, 0);
  if (json) {
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{}", table.text());
  }
  return 0;
}

}  // namespace backstep::cli
