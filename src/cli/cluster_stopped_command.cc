// `backstep cluster suspended` and `delayed`: who stands at a breakpoint, and whom only the recording's order
// holds (Krawczuk, cdb, section 3.5: the suspended table, the artificial delay indication).
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cli/format.h"
#include "cluster/delayed.h"
#include "session/present.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using cluster::Breakpoint;
using cluster::Cut;
using cluster::Place;

// What both commands are told.
struct CutQuestion {
  std::vector<std::string> words;
  bool json = false, quick = false;
  ReplayOptions replay;

  void add_options(CommandLine& line) {
    line.add_flag("--json", json, "JSON");
    line.add_engine_options(replay.engine);
    line.add_option("RUN", words);
  }
  void check() const {
    if (words.empty() || words.size() > 2) throw Error("which run, and which of its cuts?", kExitUsage);
  }
  std::string cut() const { return words.size() > 1 ? words[1] : ""; }
};

// One thread of a process that was to stop.
struct Suspended {
  const Breakpoint* breakpoint;
  const Place* place;
  int thread = 0;  // 0: the process as a whole
  bool in_call = false;
  std::string where;
};

std::string control_point(const replayer::Position& at) {
  return timeline::point_text(at.tick, at.pc);
}

std::vector<Suspended> suspended_in(OpenRun& run, const Cut& cut, bool quick) {
  std::vector<Suspended> all;
  for (const Breakpoint& b : cut.breakpoints) {
    const Place& place = cut.places[b.process];
    Suspended s{&b, &place, 0, false, {}};
    if (!place.stopped || quick) {
      all.push_back(s);
      continue;
    }
    s.where = run.sessions.source(b.process, place).text();
    session::Present present(run.sessions.at(b.process, place));
    for (const session::ThreadFacts& thread : present.threads()) {
      s.thread = thread.name, s.in_call = thread.in_call;
      all.push_back(s);
      if (thread.has_turn) continue;
      all.back().where = thread.in_call ? "in a system call" : "";
    }
  }
  return all;
}

void print_suspended(const OpenRun& run, const std::vector<Suspended>& all) {
  if (all.empty()) {
    put_line("no process of this cut was to stop anywhere");
    return;
  }
  Table table({"process", "thread", "breakpoint", "reached", "at", "where"});
  for (const Suspended& s : all)
    table.add({run.history.processes[s.breakpoint->process].name, s.thread ? std::to_string(s.thread) : "",
               s.breakpoint->spec, s.place->stopped ? "yes" : "no", control_point(s.place->at),
               s.place->stopped ? s.where : s.place->why});
  fmt::print("{}", table.text());
}

Json suspended_json(const OpenRun& run, const std::vector<Suspended>& all) {
  Json rows = Json::array();
  for (const Suspended& s : all) {
    Json row{{"process", run.history.processes[s.breakpoint->process].name},
             {"breakpoint", s.breakpoint->spec},
             {"reached", s.place->stopped},
             {"at", control_point(s.place->at)},
             {"why", s.place->why}};
    if (s.thread) row["thread"] = s.thread, row["in_call"] = s.in_call;
    if (!s.where.empty()) row["where"] = s.where;
    rows.push_back(row);
  }
  return rows;
}

void put_answer(const Json& json) {
  put_line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int cluster_suspended_command(const Args& args) {
  CutQuestion q;
  CommandLine line(
      "cluster suspended", "[options] RUN [CUT]",
      "Who was to stop in a cut (the present one), and whether it came to its breakpoint: each with\n"
      "its threads, which stand still with it. Exit status 1: one of them did not.",
      "Examples:\n"
      "  backstep cluster suspended run\n"
      "  backstep cluster suspended run break-1 --json");
  line.add_flag("--quick", q.quick, "no source lines and threads, which take a replay for each process");
  q.add_options(line);
  if (auto status = line.parse_args(args)) return *status;
  q.check();
  OpenRun run(q.words[0], q.replay);
  const Cut cut = run.cut(q.cut());
  const auto all = suspended_in(run, cut, q.quick);
  q.json ? put_answer(suspended_json(run, all)) : print_suspended(run, all);
  for (const Suspended& s : all)
    if (!s.place->stopped) return kExitFailure;
  return 0;
}

int cluster_delayed_command(const Args& args) {
  CutQuestion q;
  CommandLine line(
      "cluster delayed", "[options] RUN [CUT]",
      "Whom the replay holds back in a cut (the present one): processes that wait for what came first in\n"
      "the recording, while something is there that they could take as well. That is another message for\n"
      "the same socket (overtaken), another client of the same listener (queue), another child that has\n"
      "ended (child), or something at another of the descriptors that are polled (choice).",
      "Examples:\n"
      "  backstep cluster delayed run\n"
      "  backstep cluster delayed run break-1 --json");
  q.add_options(line);
  if (auto status = line.parse_args(args)) return *status;
  q.check();
  OpenRun run(q.words[0], q.replay);
  const Cut cut = run.cut(q.cut());
  Table table({"process", "thread", "at", "kind", "waits for", "of", "while there is", "of"});
  Json rows = Json::array();
  for (const cluster::Delay& d : cluster::delayed(run.causality, cut)) {
    const auto name = [&](cluster::ProcessId p) { return run.history.processes[p].name; };
    table.add({name(d.process), std::to_string(d.thread), control_point(d.at), delay_kind_name(d.kind),
               d.waits_for, name(d.from), d.there, name(d.giver)});
    rows.push_back({{"process", name(d.process)},
                    {"thread", d.thread},
                    {"at", control_point(d.at)},
                    {"kind", delay_kind_name(d.kind)},
                    {"waits_for", d.waits_for},
                    {"from", name(d.from)},
                    {"there", d.there},
                    {"giver", name(d.giver)}});
  }
  if (q.json)
    put_answer(rows);
  else if (rows.empty())
    put_line("the replay holds nobody back here");
  else
    fmt::print("{}", table.text());
  return 0;
}

}  // namespace backstep::cli
