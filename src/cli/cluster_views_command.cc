// `backstep cluster svg`, `blocked` and `path`: a run as pictures and tables.
#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cli/format.h"
#include "cluster/blocked.h"
#include "cluster/causal_path.h"
#include "cluster/space_time.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using cluster::Place;
using cluster::ProcessId;

std::string names_of(const OpenRun& run, const std::vector<ProcessId>& processes) {
  std::string text;
  for (ProcessId p : processes) text += (text.empty() ? "" : ", ") + run.history.processes[p].name;
  return text;
}

std::string circle_text(const OpenRun& run, const std::vector<ProcessId>& circle) {
  std::string text;
  for (size_t i = 0; i < circle.size(); i++)
    text += fmt::format("{}{} waits for {}", i ? ", " : "", run.history.processes[circle[i]].name,
                        run.history.processes[circle[(i + 1) % circle.size()]].name);
  return text;
}

Json circles_json(const OpenRun& run, const std::vector<std::vector<ProcessId>>& circles) {
  Json all = Json::array();
  for (const auto& circle : circles) {
    Json names = Json::array();
    for (ProcessId p : circle) names.push_back(run.history.processes[p].name);
    all.push_back(names);
  }
  return all;
}

void print_blocked(const OpenRun& run, const cluster::Blocked& blocked) {
  Table table({"process", "thread", "call", "waits for", "from"});
  for (const auto& w : blocked.waits)
    table.add({run.history.processes[w.process].name, w.thread ? std::to_string(w.thread) : "", w.call,
               w.what,
               w.givers.empty()
                   ? (w.kind == cluster::Wait::Timer ? "" : "nobody who was recorded")
                   : names_of(run, w.givers) + (w.outside ? ", or somebody who was not recorded" : "")});
  if (blocked.waits.empty())
    put_line("nobody waits for anything");
  else
    fmt::print("{}", table.text());
  for (const auto& circle : blocked.circles) put_line("deadlock: " + circle_text(run, circle));
  for (const auto& circle : blocked.possible)
    put_line("perhaps a deadlock, unless time or somebody who was not recorded helps: " +
             circle_text(run, circle));
}

Json blocked_json(const OpenRun& run, const cluster::Blocked& blocked) {
  Json waits = Json::array();
  for (const auto& w : blocked.waits) {
    Json entry{{"process", run.history.processes[w.process].name},
               {"kind", wait_kind_name(w.kind)},
               {"what", w.what}};
    if (w.thread) entry["thread"] = w.thread;
    if (!w.call.empty()) entry["call"] = w.call;
    if (w.channel < run.history.channels.size()) entry["channel"] = run.history.channels[w.channel].name;
    entry["from"] = Json::array();
    for (ProcessId g : w.givers) entry["from"].push_back(run.history.processes[g].name);
    if (w.timed) entry["timed"] = true;
    if (w.outside) entry["outside"] = true;
    waits.push_back(entry);
  }
  return {{"waits", waits},
          {"deadlocks", circles_json(run, blocked.circles)},
          {"possible_deadlocks", circles_json(run, blocked.possible)}};
}

std::optional<uint32_t> time_of(const std::string& text, uint32_t last) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool percent = *end == '%';
  if (end == text.c_str() || value < 0 || value > 4e9 || end[percent ? 1 : 0])
    throw Error(fmt::format("a logical time is a number from 0 to {}, or N%, not '{}'", last, text),
                kExitUsage);
  return static_cast<uint32_t>(percent ? value / 100 * last : value);
}

void write_to(const std::string& path, const std::string& text) {
  if (path.empty() || path == "-") {
    put_line(text);
    return;
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw Error(fmt::format("cannot write {}: {}", path, errno_text(errno)));
}

}  // namespace

int cluster_blocked_command(const Args& args) {
  std::vector<std::string> words;
  bool json = false;
  ReplayOptions replay;
  CommandLine line(
      "cluster blocked", "[options] RUN [CUT]",
      "Who waits for what in a cut (the present one; if none was gone to, the last moment before somebody\n"
      "outside told processes to end, 'alive'): messages, connections, children, locks, signals, time.\n"
      "Processes that wait for each other in a circle, and that nobody else can help, are a deadlock. Exit\n"
      "status 1: there is one. Where somebody who was not recorded could help, as mpirun could the ranks of\n"
      "an MPI program, it is perhaps one, and said so. Who asks again and again and is told that there is\n"
      "nothing waits, too ('polls').",
      "Examples:\n"
      "  backstep cluster blocked run alive\n"
      "  backstep cluster blocked run break-1 --json");
  line.add_flag("--json", json, "JSON");
  line.add_engine_options(replay.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (words.empty() || words.size() > 2) throw Error("which run, and which of its cuts?", kExitUsage);
  OpenRun run(words[0], replay);
  const std::string name = words.size() > 1 ? words[1] : run.cuts.has(cluster::kPresentCut) ? "" : "alive";
  const cluster::Cut cut = run.cut(name);
  const cluster::Blocked blocked = cluster::blocked(run.causality, cut, run.sessions);
  if (json)
    put_line(blocked_json(run, blocked).dump(-1, ' ', false, Json::error_handler_t::replace));
  else
    print_blocked(run, blocked);
  return blocked.circles.empty() ? 0 : kExitFailure;
}

int cluster_path_command(const Args& args) {
  std::vector<std::string> words;
  uint64_t depth = 20, count = 1;
  bool json = false, quick = false, last = false;
  ReplayOptions replay;
  CommandLine line(
      "cluster path", "[options] RUN PROCESS WHERE [if COND]",
      "A request's way through all processes: what led to a moment (the last message that the process\n"
      "got before it, the last one that its sender got before sending, and so on), and what it led to.\n"
      "A backtrace, across hosts. WHERE: as for 'backstep cluster break'.",
      "Examples:\n"
      "  backstep cluster path run B/worker worker.c:88\n"
      "  backstep cluster path run B/worker end --depth 5");
  line.add_option("--count", count, "the N-th time").type_name("N");
  line.add_flag("--last", last, "the last time");
  line.add_option("--depth", depth, "so many hops before and behind it (20)").type_name("N");
  line.add_flag("--quick", quick, "do not look up source lines, which takes replays");
  line.add_flag("--json", json, "JSON");
  line.add_engine_options(replay.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (words.size() < 3)
    throw Error(
        "the way to which moment of which process? For example: backstep cluster path RUN B/worker "
        "worker.c:88",
        kExitUsage);
  OpenRun run(words[0], replay);
  const ProcessId process = run.process(words[1]);
  std::string spec = words[2];
  for (size_t i = 3; i < words.size(); i++) spec += " " + words[i];
  ProgressBar bar("looking");
  const auto where = run.sessions.find(process, spec, last ? -1 : static_cast<int64_t>(count), bar.watcher());
  const cluster::EventCount done = run.causality.count_at(process, where.at);
  auto source = [&](const cluster::GraphEvent& e) {
    Place place;
    place.at = run.causality.event(e).point.at;
    return quick ? std::string() : run.sessions.source(e.process, place).text();
  };
  Table table({"from", "at", "", "to", "at", "what"});
  Json hops = Json::array();
  auto add = [&](const cluster::Hop& hop) {
    const std::string from = source(hop.from), to = source(hop.to), what = run.causality.text(hop.link);
    auto at = [&](const cluster::GraphEvent& e, const std::string& text) {
      const auto& position = run.causality.event(e).point.at;
      return timeline::point_text(position.tick, position.pc) + (text.empty() ? "" : " " + text);
    };
    table.add({run.history.processes[hop.from.process].name, at(hop.from, from), "->",
               run.history.processes[hop.to.process].name, at(hop.to, to), what});
    hops.push_back({{"from", run.history.processes[hop.from.process].name},
                    {"from_at", at(hop.from, "")},
                    {"from_where", from},
                    {"to", run.history.processes[hop.to.process].name},
                    {"to_at", at(hop.to, "")},
                    {"to_where", to},
                    {"what", what}});
  };
  for (const auto& hop : cluster::way_to(run.causality, process, done, depth)) add(hop);
  Place here;
  here.at = where.at;
  const std::string at_here = timeline::point_text(where.at.tick, where.at.pc);
  const std::string source_here = quick ? "" : run.sessions.source(process, here).text();
  table.add({run.history.processes[process].name, at_here + (source_here.empty() ? "" : " " + source_here),
             "", "", "", "<- here: " + spec});
  const size_t before = hops.size();
  for (const auto& hop : cluster::way_from(run.causality, process, done, depth)) add(hop);
  bar.clear();
  if (json) {
    put_line(Json{
        {"process", run.history.processes[process].name},
        {"at", at_here},
        {"where", source_here},
        {"before", before},
        {"hops",
         hops}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", table.text());
  }
  return 0;
}

int cluster_svg_command(const Args& args) {
  std::vector<std::string> words, only;
  std::string from, to, output, title, cut_name;
  uint64_t width = 1000;
  ReplayOptions replay;
  CommandLine line(
      "cluster svg", "[options] RUN",
      "The space-time diagram of a distributed run as SVG: a line for each process, an arrow for each\n"
      "message (blue), for what else comes after what (dashed: fork, exec, wait, connect, close) and for\n"
      "signals, by logical time, in which an arrow always leads to the right. A cut is drawn across.",
      "Examples:\n"
      "  backstep cluster svg run -o run.svg\n"
      "  backstep cluster svg run --cut break-1 --from 120 --to 180 -o near-the-bug.svg\n"
      "  backstep cluster svg run --only A/server,B/client | rsvg-convert -o run.png");
  line.add_option("-o,--output", output, "write it to this file (stdout)").type_name("FILE");
  line.add_option("--cut", cut_name, "draw this cut (the present one, if there is one; none)")
      .type_name("CUT");
  line.add_option("--from", from, "from this logical time on: a number, or N% of the run").type_name("TIME");
  line.add_option("--to", to, "up to this one").type_name("TIME");
  line.add_option("--only", only, "only these processes, in this order").type_name("PROCESS,…");
  line.add_option("--title", title, "a title").type_name("TEXT");
  line.add_option("--width", width, "at least so wide, in pixels (1000)").type_name("N");
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (words.size() != 1) throw Error("of which run? One", kExitUsage);
  OpenRun run(words[0], replay);
  cluster::Diagram diagram;
  const uint32_t last = cluster::LogicalTime(run.causality).last();
  diagram.from = time_of(from, last);
  diagram.to = time_of(to, last);
  for (const std::string& list : only)
    for (size_t at = 0; at <= list.size();) {
      const size_t comma = std::min(list.find(',', at), list.size());
      diagram.processes.push_back(run.process(list.substr(at, comma - at)));
      at = comma + 1;
    }
  diagram.title = title;
  diagram.width = static_cast<double>(width);
  std::optional<cluster::Cut> cut;
  if (!cut_name.empty() ? cut_name != "none" : run.cuts.has(cluster::kPresentCut)) cut = run.cut(cut_name);
  if (cut) diagram.cut = &*cut;
  write_to(output, cluster::space_time_svg(run.causality, diagram));
  return 0;
}

}  // namespace backstep::cli
