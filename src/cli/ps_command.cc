// `backstep ps`: the processes of a recording, as a tree.
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
#include "recording/process_facts.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using recording::ProcessFacts;
using recording::ProcessInfo;

// The date is that of the recording, which `ls` shows.
std::string time_of_day(uint64_t ns) {
  if (ns == 0) return "-";
  const std::string text = format_time(static_cast<int64_t>(ns));
  return fmt::format("{}.{:03}", text.substr(text.find(' ') + 1), ns / 1'000'000 % 1000);
}

}  // namespace

int ps_command(const Args& args) {
  bool json = false, wide = false;
  std::string dir;
  CommandLine line(
      "ps", "[-w] [--json] [DIR]",
      "Lists the processes of a recording: number, pid, how it began (start; fork: as a copy of\n"
      "its parent; exec: a new program in the same process; spawn: a new program in a new\n"
      "process, by vfork or posix_spawn), end, when it began, how long it took, processor time\n"
      "(with the recorder's work), ticks, events, command.\n"
      "'replay -p PID' replays one of them.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep ps\n"
      "  backstep replay --autopilot -p 4711\n"
      "  backstep ps --json make-1 | jq '.[] | select(.end.kind == \"signal\")'");
  line.add_flag("-w,--wide", wide, "whole command lines");
  line.add_flag("--json", json, "as JSON");
  line.add_option("DIR", dir);
  if (auto status = line.parse_args(args)) return *status;
  const auto r = recording::Library::standard().resolve(dir);

  std::map<uint64_t, std::vector<ProcessFacts>> children;  // by parent, ascending
  for (ProcessFacts& facts : process_facts(r)) children[facts.info.parent].push_back(std::move(facts));
  Table table({">NUMBER", ">PID", "BORN", "END", "START", ">TOOK", ">CPU", ">TICKS", ">EVENTS", "COMMAND"});
  Json all = Json::array();
  std::function<void(uint64_t, int)> walk = [&](uint64_t parent, int depth) {
    for (const ProcessFacts& facts : children[parent]) {
      const ProcessInfo& info = facts.info;
      const int indent = facts.begins_process() ? depth : depth - 1;
      const char* born = recording::birth_name(info);
      const auto time = [](const auto& ns) { return ns ? format_duration(*ns) : "-"; };
      table.add({std::to_string(info.number), info.empty ? "-" : std::to_string(info.pid),
                 info.empty ? "-" : born, facts.end_text(), time_of_day(info.start_ns),
                 time(facts.duration_ns), time(facts.cpu_ns), format_count(facts.ticks),
                 format_count(facts.events),
                 std::string(static_cast<size_t>(2 * std::max(indent, 0)), ' ') +
                     shorten(format_command(info.argv), wide ? std::string::npos : 70)});
      Json j = {{"number", info.number},
                {"pid", info.pid},
                {"born", born},
                {"parent", info.parent},
                {"event", info.parent_event},
                {"ticks", facts.ticks},
                {"events", facts.events},
                {"damaged", info.damaged},
                {"empty", info.empty},
                {"argv", Json::array()}};
      j["start"] = info.start_ns ? Json(format_time_iso(static_cast<int64_t>(info.start_ns))) : Json();
      j["start_ns"] = info.start_ns ? Json(info.start_ns) : Json();
      j["duration_ns"] = facts.duration_ns ? Json(*facts.duration_ns) : Json();
      j["cpu_ns"] = facts.cpu_ns ? Json(*facts.cpu_ns) : Json();
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
