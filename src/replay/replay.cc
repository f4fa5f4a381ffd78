// `backstep replay`: to the end on autopilot.
#include "replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "recording/library.h"
#include "recording/ordered_log.h"
#include "recording/side_files.h"
#include "recording/tree.h"
#include "replay/tree_replay.h"

namespace backstep {

namespace {

std::string why_stopped(const recording::Recording& recording, uint64_t process) {
  try {
    for (const std::string& note : recording::Manifest::load(recording.manifest_path(process)).notes)
      if (note.starts_with("the recording ends early")) return note;
  } catch (const Error&) {
    // Then nobody knows.
  }
  return "why is not known";
}

using replayer::Replayed;
using Json = nlohmann::ordered_json;  // its first field is how scripts find it on stderr

std::string name_of(const recording::Recording& recording, uint64_t process) {
  constexpr size_t kMost = 60;
  std::string command;
  for (const recording::ProcessInfo& info : recording::list_processes(recording))
    if (info.number == process)
      for (const std::string& word : info.argv) command += (command.empty() ? "" : " ") + word;
  if (command.size() > kMost) command = command.substr(0, kMost) + "…";
  return fmt::format("process #{}{}", process, command.empty() ? "" : fmt::format(" ({})", command));
}

const Replayed* find(const std::vector<Replayed>& all, uint64_t process) {
  for (const Replayed& r : all)
    if (r.process == process) return &r;
  return nullptr;
}

// The program that was recorded, or what it became by execve at last.
const Replayed& last_program(const std::vector<Replayed>& all) {
  const Replayed* last = &all.front();
  while (last->outcome.complete && last->outcome.kind == recording::EndKind::Exec &&
         last->outcome.status > static_cast<int64_t>(last->process)) {
    const Replayed* next = find(all, static_cast<uint64_t>(last->outcome.status));
    if (!next) break;
    last = next;
  }
  return *last;
}

bool is_exact(const Replayed& r) {
  return r.error.empty() && !r.outcome.damaged;
}

void report_json(const std::vector<Replayed>& all, bool exact) {
  const replayer::Outcome& last = last_program(all).outcome;
  Json j{{"complete", last.complete}, {"exact", exact}, {"status", last.status}};
  Tick ticks = 0;
  uint64_t events = 0;
  for (const Replayed& r : all) {
    const replayer::Outcome& o = r.outcome;
    ticks += o.ticks;
    events += o.events;
    Json p{{"process", r.process}, {"ticks", o.ticks},       {"events", o.events},
           {"exact", is_exact(r)}, {"complete", o.complete}, {"status", o.status}};
    if (!o.incomplete.empty()) p["incomplete"] = o.incomplete;
    if (!r.error.empty()) p["error"] = r.error;
    j["processes"].push_back(p);
  }
  j["ticks"] = ticks;
  j["events"] = events;
  if (!last.incomplete.empty()) j["incomplete"] = last.incomplete;
  fmt::print(stderr, "{}\n", j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// What was not as it should be, and for a tree one line about all of it.
void report(const recording::Recording& recording, const std::vector<Replayed>& all, bool quiet,
            double seconds) {
  const bool tree = all.size() > 1;
  size_t wrong = 0, cut = 0, lost = 0, same = 0;
  std::set<std::string> told;
  Tick ticks = 0;
  uint64_t events = 0;
  for (const Replayed& r : all) {
    const replayer::Outcome& o = r.outcome;
    const auto who = [&] { return tree ? printable(name_of(recording, r.process)) + ": " : ""; };
    wrong += !is_exact(r);
    ticks += o.ticks;
    events += o.events;
    if (r.lost) {
      lost++;
    } else if (!r.error.empty() && !told.insert(r.error).second) {
      same++;
    } else if (!r.error.empty()) {
      fmt::print(stderr, "backstep: {}{}\n", who(), printable(r.error, true));
    } else if (o.complete && o.kind == recording::EndKind::Stopped) {
      fmt::print(
          stderr,
          "backstep: {}the recording was stopped before the program ended, and replayed up to there ({})\n",
          who(), why_stopped(recording, r.process));
    } else if (o.damaged || (!o.incomplete.empty() && !tree)) {
      fmt::print(stderr, "backstep: {}{} ({} events, {} ticks)\n", who(), printable(o.incomplete, true),
                 o.events, o.ticks);
    } else {
      cut += !o.incomplete.empty();
    }
  }
  if (same) fmt::print(stderr, "backstep: the same goes for {} more processes\n", same);
  if (lost)
    fmt::print(stderr, "backstep: {} processes that these have forked could not be replayed without them\n",
               lost);
  if (!tree || quiet) return;
  std::string how = wrong ? fmt::format("{} of {} logs not exactly", wrong, all.size())
                          : fmt::format("all {} logs exactly", all.size());
  if (cut) how += fmt::format(" ({} up to where their recorder was killed)", cut);
  fmt::print(
      stderr, "backstep: replayed {}: {} events, {} ticks in {:.2f} s{}\n", how, events, ticks, seconds,
      recording::OrderedLogs(recording, false).by_time()
          ? "; an older Backstep recorded it, so the order of what different processes wrote is a guess"
          : "");
}

}  // namespace

int replay(const ReplayOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  recording::Library library = recording::Library::standard();
  recording::Recording recording = library.resolve(options.recording);
  std::vector<Replayed> all;
  if (!options.chosen && recording.processes().size() > 1) {
    all = replayer::replay_tree(options, library, recording);
  } else {
    Replayed one;
    one.process = options.process;
    if (recording::is_without_events(recording, options.process))
      one.outcome.incomplete = "the process was killed before its first event: there is nothing to replay";
    else
      one.outcome = replayer::replay_log(options, library, recording);
    all.push_back(one);
  }
  if (!options.quiet)
    for (const std::string& damage : recording::damaged_side_files(recording))
      fmt::print(stderr, "backstep: {}\n", damage);
  int code = 0;
  for (const Replayed& r : all)
    if (!is_exact(r)) code = std::max(code, r.error.empty() ? static_cast<int>(kExitDivergence) : r.code);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (options.json)
    report_json(all, code == 0);
  else
    report(recording, all, options.quiet, seconds.count());
  return code;
}

}  // namespace backstep
