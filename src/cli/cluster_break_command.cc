// `backstep cluster break` and `backstep cluster step`: what makes cuts.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cluster/stepping.h"

namespace backstep::cli {
namespace {

using cluster::Breakpoint;
using cluster::Cut;

// The options that everything which moves a run has.
struct Moving {
  bool causal = false, optimistic = false, json = false, quick = false;
  ReplayOptions replay;

  void add_options(CommandLine& line) {
    line.add_flag("--causal", causal,
                  "the others are where all has happened that happened before, and\nno more (the default)");
    line.add_flag(
        "--optimistic", optimistic,
        "the others run on: to their own breakpoints, their ends, or\nwhere they need what has not happened");
    line.add_flag("--quick", quick, "do not look up source lines, which takes a replay for each process");
    line.add_flag("--json", json, "JSON");
    line.add_engine_options(replay.engine);
  }
  void check() const {
    if (causal && optimistic) throw Error("--causal and --optimistic exclude each other", kExitUsage);
  }
};

struct Wanted {
  cluster::ProcessId process;
  std::string spec;
};

// PROCESS WHERE [PROCESS WHERE]…: a process's name begins the next one, but not directly behind another one.
std::vector<Wanted> breakpoints_of(const OpenRun& run, const std::vector<std::string>& words) {
  std::vector<Wanted> all;
  for (const std::string& word : words) {
    const bool is_next = all.empty() || !all.back().spec.empty();
    if (is_next && (all.empty() || run.history.find(word) != cluster::kNone))
      all.push_back({run.process(word), ""});
    else
      all.back().spec += (all.back().spec.empty() ? "" : " ") + word;
  }
  for (size_t i = 0; i < all.size(); i++) {
    const std::string& name = run.history.processes[all[i].process].name;
    if (all[i].spec.empty())
      throw Error(fmt::format("where is {0} to stop? For example: {0} server.c:120 if n > 3", name),
                  kExitUsage);
    for (size_t j = 0; j < i; j++)
      if (all[j].process == all[i].process)
        throw Error(fmt::format("{} can stop at one place only, not at '{}' and '{}'", name, all[j].spec,
                                all[i].spec),
                    kExitUsage);
  }
  return all;
}

int64_t count_of(const std::vector<std::string>& counts, size_t i) {
  if (counts.empty()) return 1;
  const std::string& text = counts[std::min(i, counts.size() - 1)];
  char* end = nullptr;
  const long long count = std::strtoll(text.c_str(), &end, 10);
  if (*end || !count || text.empty())
    throw Error(fmt::format("--count is a number, negative ones from the end, not '{}'", text), kExitUsage);
  return count;
}

// Keeps it as the present one, and under its name if it has one.
void keep(OpenRun& run, Cut cut) {
  if (!cut.name.empty()) run.cuts.save(cut);
  cut.name = cluster::kPresentCut;
  run.cuts.save(cut);
}

}  // namespace

int cluster_break_command(const Args& args) {
  Moving moving;
  std::vector<std::string> words, counts;
  std::string name;
  CommandLine line(
      "cluster break", "[options] RUN PROCESS WHERE [if COND] [PROCESS WHERE …]",
      "Stops one process of a distributed run or several at breakpoints, and all others where that makes\n"
      "sense: together they are a consistent cut, in which nothing has been received that was not sent.\n"
      "The cut is kept under a name, and becomes the present one.\n"
      "PROCESS: as 'backstep cluster ls' calls it. WHERE: FILE:LINE, a function, a moment (@TICK:0xPC,\n"
      "event N, 50%, end) or any event that 'backstep events' lists, with a condition.",
      "Examples:\n"
      "  backstep cluster break run A/server server.c:120\n"
      "  backstep cluster break run A/server handle if n > 3 --count 2 --optimistic\n"
      "  backstep cluster break run A/server server.c:120 B/client client.c:40 --name both\n"
      "  backstep cluster break run B/worker end        # what made it end so?");
  moving.add_options(line);
  line.add_option("--count", counts,
                  "the N-th time; -1: the last one. With several breakpoints: of each,\nin their order")
      .one_value_each()
      .type_name("N");
  line.add_option("--name", name, "how the cut is called (break-1, break-2, …)").type_name("NAME");
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  moving.check();
  if (words.size() < 2)
    throw Error(
        "which process is to stop, and where? For example: backstep cluster break RUN A/server server.c:120",
        kExitUsage);
  if (!name.empty()) cluster::CutFolder::check_name(name);
  OpenRun run(words[0], moving.replay);
  const auto wanted = breakpoints_of(run, {words.begin() + 1, words.end()});
  std::vector<Breakpoint> breakpoints;
  {
    ProgressBar bar("looking");
    for (size_t i = 0; i < wanted.size(); i++)
      breakpoints.push_back(
          run.sessions.find(wanted[i].process, wanted[i].spec, count_of(counts, i), bar.watcher()));
  }
  Cut cut = moving.optimistic ? run.breaking.optimistic(breakpoints) : run.breaking.causal(breakpoints);
  cut.name = name.empty() ? run.cuts.free_name("break") : name;
  keep(run, cut);
  show_cut(run, cut, moving.json, !moving.quick);
  return 0;
}

int cluster_step_command(const Args& args) {
  Moving moving;
  std::vector<std::string> words;
  bool back = false;
  uint64_t count = 1;
  CommandLine line(
      "cluster step", "[options] RUN PROCESS [line|stepi|finish|message]",
      "Moves one process of a distributed run from its place in the present cut, and the others with it:\n"
      "forwards, --causal takes them no further than it needs, --optimistic as far as they can; backwards,\n"
      "they go back to where nothing has been received that this one has not sent yet.\n"
      "line: to the next line of this function (calls are passed over); stepi: one instruction; finish: out\n"
      "of the function; message: to the next thing that is sent, received, made or waited for.",
      "Examples:\n"
      "  backstep cluster step run A/server\n"
      "  backstep cluster step run A/server message --back\n"
      "  backstep cluster step run A/server line --count 5 --optimistic");
  moving.add_options(line);
  line.add_flag("--back", back, "backwards");
  line.add_option("--count", count, "so many times").type_name("N");
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  moving.check();
  if (words.size() < 2 || words.size() > 3)
    throw Error("which process is to move? For example: backstep cluster step RUN A/server line", kExitUsage);
  const auto how = cluster::step_named(words.size() > 2 ? words[2] : "line");
  if (!how) throw Error(fmt::format("'{}' is no step: line, stepi, finish or message", words[2]), kExitUsage);
  OpenRun run(words[0], moving.replay);
  const auto process = run.process(words[1]);
  Cut present = run.cut("");
  cluster::Place place = present.places[process];
  for (uint64_t i = 0; i < count; i++)
    place = cluster::step(run.causality, run.breaking, run.sessions, process, place, *how, back);
  keep(run, cluster::stepped(run.breaking, present, process, place, moving.optimistic, back));
  show_cut(run, run.cut(""), moving.json, !moving.quick);
  return 0;
}

}  // namespace backstep::cli
