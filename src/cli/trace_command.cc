// `backstep trace`: what is kept of a run besides its log, window by window, so that questions about all of
// it are answered from there.
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

void list(session::Session& session, bool json) {
  Table table{{"FROM", "TO", ">TICKS", ">LEVEL", ">SIZE"}};
  Json all = Json::array();
  uint64_t ticks = 0, bytes = 0;
  const auto windows = session.timeline().contents().list();
  for (const timeline::StoredWindow& w : windows) {
    table.add({format_point({w.from.tick, w.from.pc}), format_point({w.to.tick, w.to.pc}),
               format_count(w.to.tick - w.from.tick), "1", format_size(w.size)});
    all.push_back({{"from", point_json({w.from.tick, w.from.pc})},
                   {"to", point_json({w.to.tick, w.to.pc})},
                   {"level", 1},
                   {"size", w.size}});
    ticks += w.to.tick - w.from.tick;
    bytes += w.size;
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
  bool remove = false;
  TraceJobs jobs;
  CommandLine line(
      "trace", "[--level 1 | --remove] [--from MOMENT] [--to MOMENT] [--jobs ENGINE] [--json] [DIR]",
      "Lists the windows of a run of which more is kept than the log has, or makes them.\n"
      "A window of level 1 has a table of contents: which words of memory were written to in it, and which\n"
      "instructions were executed, exactly. Whatever looks for those (reverse-continue with a watchpoint,\n"
      "last-write, count, log, calls) replays only windows that have an answer.\n"
      "They are made on all processors of this machine, or by jobs: in a Slurm cluster, or over ssh.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep trace --level 1          of all of the latest recording\n"
      "  backstep trace --level 1 --from 90%\n"
      "  backstep trace --jobs slurm --job-options '--partition=short'\n"
      "  backstep trace --jobs ssh --hosts node1,node2\n"
      "  backstep trace                    what there is");
  line.add_option("--level", level, "make what is missing of this level (1)").type_name("N").between(1, 1);
  line.add_flag("--remove", remove, "remove all of them, of all processes");
  jobs.add_options(line);
  asking.add_options(line);
  line.add_option("DIR", asking.dir);
  if (auto status = line.parse_args(args)) return *status;
  if (!jobs.job.empty()) {
    cluster::run_job(jobs.job, asking.replay);
    return 0;
  }
  if (jobs.wanted()) level = 1;
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
    jobs.run(*session, stretch);
  } else if (level) {
    timeline::Timeline& timeline = session->timeline();
    ProgressBar bar("tracing");
    const auto made = timeline.make_contents(stretch.from.value_or(timeline.now()),
                                             stretch.to.value_or(timeline.log().last().position()),
                                             [&](double done) { bar.show(done); });
    bar.clear();
    if (!made.complete) throw Error("ended before all windows were made; those that were are kept");
    tell_unknown(made.unknown);
  }
  list(*session, asking.json);
  return 0;
}

}  // namespace backstep::cli
