// `backstep cluster cuts`, `goto` and `mark`: what is done with cuts that are there.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cli/format.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using cluster::Cut;
using cluster::Place;

std::string breakpoints_text(const OpenRun& run, const Cut& cut) {
  std::string text;
  for (const auto& b : cut.breakpoints)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", run.history.processes[b.process].name, b.spec,
                        b.match > 1 ? fmt::format(" ({})", b.match) : "");
  return text;
}

void list_cuts(OpenRun& run, bool json) {
  Table table({"name", "kind", "breakpoints"});
  Json all = Json::array();
  std::vector<std::string> names = run.cuts.names();
  if (run.cuts.has(cluster::kPresentCut)) names.insert(names.begin(), cluster::kPresentCut);
  for (const std::string& name : names) {
    try {
      const Cut cut = run.cuts.load(name);
      table.add({name, cut_kind_name(cut.kind), breakpoints_text(run, cut)});
      Json entry{{"name", name}, {"kind", cut_kind_name(cut.kind)}, {"breakpoints", Json::array()}};
      for (const auto& b : cut.breakpoints)
        entry["breakpoints"].push_back({{"process", run.history.processes[b.process].name},
                                        {"spec", b.spec},
                                        {"at", timeline::point_text(b.at.tick, b.at.pc)}});
      all.push_back(entry);
    } catch (const Error& e) {
      table.add({name, "damaged", e.what()});
      all.push_back({{"name", name}, {"error", e.what()}});
    }
  }
  if (json)
    put_line(all.dump(-1, ' ', false, Json::error_handler_t::replace));
  else if (names.empty())
    put_line("the run has no cuts yet; 'backstep cluster break' makes them");
  else
    fmt::print("{}", table.text());
}

}  // namespace

int cluster_cuts_command(const Args& args) {
  std::vector<std::string> words;
  std::string removed;
  bool json = false, quick = false;
  ReplayOptions replay;
  CommandLine line(
      "cluster cuts", "[options] RUN [CUT]",
      "Lists the cuts of a distributed run, or shows one: where each process is, and why. A cut is the\n"
      "file cuts/NAME.json in RUN; whoever has the same recordings can be sent it.",
      "Examples:\n"
      "  backstep cluster cuts run\n"
      "  backstep cluster cuts run break-1\n"
      "  backstep cluster cuts run --remove break-1");
  line.add_option("--remove", removed, "remove this one").type_name("CUT");
  line.add_flag("--quick", quick, "do not look up source lines, which takes a replay for each process");
  line.add_flag("--json", json, "JSON");
  line.add_engine_options(replay.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (words.empty() || words.size() > 2)
    throw Error("which run? One, and one of its cuts at most", kExitUsage);
  OpenRun run(words[0], replay);
  if (!removed.empty()) {
    cluster::CutFolder::check_name(removed);
    if (!run.cuts.remove(removed)) throw Error(fmt::format("the run has no cut '{}'", removed), kExitUsage);
    return 0;
  }
  words.size() > 1 ? show_cut(run, run.cut(words[1]), json, !quick) : list_cuts(run, json);
  return 0;
}

int cluster_goto_command(const Args& args) {
  std::vector<std::string> words;
  bool json = false, quick = false;
  ReplayOptions replay;
  CommandLine line(
      "cluster goto", "[options] RUN CUT",
      "Makes a cut the present one, which 'step', 'blocked', 'gdb' and 'svg' begin at.\n"
      "CUT: a name, start, end, alive (before somebody outside told processes to end), or the file of one\n"
      "that somebody has sent.",
      "Examples:\n"
      "  backstep cluster goto run break-1\n"
      "  backstep cluster goto run ./from-ann.json");
  line.add_flag("--quick", quick, "do not look up source lines, which takes a replay for each process");
  line.add_flag("--json", json, "JSON");
  line.add_engine_options(replay.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (words.size() != 2) throw Error("which run, and which of its cuts?", kExitUsage);
  OpenRun run(words[0], replay);
  Cut cut = run.cut(words[1]);
  const std::string name = cut.name;
  cut.name = cluster::kPresentCut;
  run.cuts.save(cut);
  cut.name = name;
  show_cut(run, cut, json, !quick);
  return 0;
}

int cluster_mark_command(const Args& args) {
  std::vector<std::string> words;
  std::string from;
  ReplayOptions replay;
  CommandLine line("cluster mark", "[options] RUN NAME",
                   "Gives the present cut a name: a checkpoint of the whole distributed program, which\n"
                   "'backstep cluster goto' comes back to. A name that is taken means this cut from now on.",
                   "Examples:\n"
                   "  backstep cluster mark run before-the-failover\n"
                   "  backstep cluster mark run everything --cut end");
  line.add_option("--cut", from, "of this cut, not the present one").type_name("CUT");
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (words.size() != 2) throw Error("which run, and what is the cut to be called?", kExitUsage);
  cluster::CutFolder::check_name(words[1]);
  OpenRun run(words[0], replay);
  Cut cut = run.cut(from);
  cut.name = words[1];
  run.cuts.save(cut);
  return 0;
}

}  // namespace backstep::cli
