// `backstep trace`: what is kept of a run besides its log, window by window, so that questions about all of
// it are answered from there.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/trace_jobs.h"
#include "cluster/job.h"
#include "recording/contents.h"

namespace backstep::cli {
namespace {

// What there is of a window, in all of its files.
struct Kept {
  timeline::Position from, to;
  int level = 1;
  uint64_t size = 0;
  std::optional<uint64_t> stores;
};

std::vector<Kept> kept(timeline::Timeline& timeline) {
  std::vector<Kept> all;
  for (const timeline::StoredWindow& w : timeline.contents().list())
    all.push_back({w.from, w.to, 1, w.size, std::nullopt});
  for (const timeline::TracedWindow& t : timeline.traces().list()) {
    auto same =
        std::find_if(all.begin(), all.end(), [&](const Kept& k) { return k.from == t.from && k.to == t.to; });
    if (same == all.end()) same = all.insert(all.end(), {t.from, t.to, t.level, 0, std::nullopt});
    same->level = t.level;
    same->size += t.size;
    same->stores = t.stores;
  }
  std::stable_sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.from < b.from; });
  return all;
}

void list(session::Session& session, bool json) {
  Table table{{"FROM", "TO", ">TICKS", ">LEVEL", ">STORES", ">SIZE"}};
  Json all = Json::array();
  uint64_t ticks = 0, bytes = 0;
  timeline::Position behind;
  const auto windows = kept(session.timeline());
  for (const Kept& w : windows) {
    table.add({format_point({w.from.tick, w.from.pc}), format_point({w.to.tick, w.to.pc}),
               format_count(w.to.tick - w.from.tick), std::to_string(w.level),
               w.stores ? format_count(*w.stores) : "", format_size(w.size)});
    Json row = {{"from", point_json({w.from.tick, w.from.pc})},
                {"to", point_json({w.to.tick, w.to.pc})},
                {"level", w.level},
                {"size", w.size}};
    if (w.stores) row["stores"] = *w.stores;
    all.push_back(std::move(row));
    ticks += w.to.tick - std::min(w.to.tick, std::max(w.from.tick, behind.tick));
    bytes += w.size;
    behind = std::max(behind, w.to);
  }
  if (json) {
    fmt::print("{}\n", all.dump(2));
    return;
  }
  if (windows.empty()) {
    fmt::print("{} has no windows yet; 'backstep trace --level 1' makes them\n", session.recording().name());
    return;
  }
  const Tick last = session.timeline().log().last().tick;
  fmt::print("{}{} of {} ticks in {} windows, {}\n", table.text(), format_count(ticks), format_count(last),
             windows.size(), format_size(bytes));
}

}  // namespace

int trace_command(const Args& args) {
  Asking asking;
  uint64_t level = 0;
  std::string budget = "2GB";
  bool remove = false;
  TraceJobs jobs;
  CommandLine line(
      "trace",
      "[--level N | --remove] [--budget SIZE] [--from MOMENT] [--to MOMENT] [--jobs ENGINE] [--json] [DIR]",
      "Lists the windows of a run of which more is kept than the log has, or makes them.\n"
      "A window of level 1 has a table of contents: which words of memory were written to in it, and which\n"
      "instructions were executed, exactly. Whatever looks for those (reverse-continue with a watchpoint,\n"
      "last-write, count, log, calls) replays only windows that have an answer.\n"
      "Level 2 adds which store was the last one to each word, and how many there were, so that of such a\n"
      "window little is replayed; level 3 adds all stores, so that 'stores' in SQL need no replay at all.\n"
      "Levels 2 and 3 are kept as long as there is room for them (--budget); those that were not used for "
      "the\n"
      "longest time are reduced first, to level 2 and then to level 1.\n"
      "They are made on all processors of this machine, or by jobs: in a Slurm cluster, or over ssh.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep trace --level 1          of all of the latest recording\n"
      "  backstep trace --level 3 --from 90%   all stores of the last tenth\n"
      "  backstep trace --jobs slurm --job-options '--partition=short'\n"
      "  backstep trace --jobs ssh --hosts node1,node2 --level 3\n"
      "  backstep trace                    what there is");
  line.add_option("--level", level, "make what is missing of this level: 1, 2 or 3")
      .type_name("N")
      .between(1, 3);
  auto with_budget =
      line.add_option("--budget", budget, "room on disk for levels 2 and 3, as 500MB or 4GB (2GB)")
          .type_name("SIZE");
  line.add_flag("--remove", remove, "remove all of them, of all processes");
  jobs.add_options(line);
  asking.add_options(line);
  line.add_option("DIR", asking.dir);
  if (auto status = line.parse_args(args)) return *status;
  if (!jobs.job.empty()) {
    cluster::run_job(jobs.job, asking.replay);
    return 0;
  }
  const uint64_t most = parse_size(budget);
  if (jobs.wanted() && !level) level = 1;
  if (remove && level) throw Error("--remove and making tables exclude each other", kExitUsage);
  if (remove) {
    const recording::Library library = recording::Library::standard();
    const uint64_t bytes = recording::ContentsFolder::remove(library.resolve(asking.dir));
    if (!asking.json) fmt::print("{} freed\n", format_size(bytes));
    return 0;
  }
  const auto session = asking.open();
  const session::Stretch stretch = asking.stretch(*session);
  if (jobs.wanted()) {
    session->timeline().traces().budget = most;
    jobs.run(*session, stretch, static_cast<int>(level));
  } else if (level) {
    timeline::Timeline& timeline = session->timeline();
    ProgressBar bar("tracing");
    const timeline::Position from = stretch.from.value_or(timeline.now());
    const timeline::Position to = stretch.to.value_or(timeline.log().last().position());
    auto progress = [&](double done) { bar.show(done); };
    timeline.traces().budget = most;
    const auto made = level == 1 ? timeline.make_contents(from, to, progress)
                                 : timeline.make_traces(static_cast<int>(level), from, to, progress);
    bar.clear();
    tell_reduced(made.reduced, most);
    if (!made.complete) throw Error("ended before all windows were made; those that were are kept");
    tell_unknown(made.unknown);
  } else if (with_budget.given()) {
    timeline::StoredTraces& traces = session->timeline().traces();
    traces.budget = most;
    traces.reduce();
  }
  list(*session, asking.json);
  return 0;
}

}  // namespace backstep::cli
