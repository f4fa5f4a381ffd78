// `backstep races`: accesses of two threads that nothing orders.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/stacks.h"
#include "recording/tree.h"
#include "session/races.h"

namespace backstep::cli {
namespace {

void print_race(const session::Race& r) {
  auto side = [](const session::RaceSide& s) {
    return fmt::format("{} of {} byte{} by thread {} at {}", s.store ? "store" : "load", s.size,
                       s.size == 1 ? "" : "s", s.thread, point_of(s.at));
  };
  std::string text = fmt::format("race on {:#x}", r.address);
  if (!r.variable.empty()) text += fmt::format(" ({})", r.variable);
  if (r.count > 1) text += fmt::format(", {} times; the first:", format_count(r.count));
  put_line(text);
  print_stack("  " + side(r.first), r.first.stack);
  print_stack("  not ordered before " + side(r.second), r.second.stack);
  put_line("");
}

// `number`: it is one of several processes.
int races_of(Asking& asking, const uint64_t* number) {
  auto session = asking.open();
  session::RacesReport report;
  {
    ProgressBar bar("looking");
    report = session::races(*session, asking.stretch(*session), bar.watcher());
  }
  if (asking.json) {
    Json list = session::races_json(report);
    for (Json& race : list)
      if (number) race["process"] = *number;
    put_line(list.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    if (number) put_line(fmt::format("#{}, pid {}", *number, session->timeline().log().pid()));
    for (const auto& r : report.races) print_race(r);
    if (report.races.empty()) put_line("no races were found");
  }
  return report.races.empty() ? 0 : kExitFailure;
}

}  // namespace

int races_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  CommandLine line(
      "races", "[options] [DIR]",
      "Accesses of two threads to the same memory, at least one of them a store, that nothing orders: no "
      "lock,\n"
      "semaphore, condition, barrier, atomic instruction, message, signal or futex call, no thread's "
      "beginning\n"
      "or end. They happened one after the other in this run, but might as well have happened the other way\n"
      "round. One for each pair of lines.\n"
      "All loads and stores of the run are gone through, so it takes much longer than a replay.\n"
      "Exit status: 1 if there are some, else 0.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep races\n"
      "  backstep races --from 50% --json server-3");
  asking.add_options(line);
  line.add_option("DIR", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.size() > 1) throw Error("one recording at a time", kExitUsage);
  if (!arguments.empty()) asking.dir = arguments[0];
  if (asking.process.empty()) return races_of(asking, nullptr);
  const auto recording = recording::Library::standard().resolve(asking.dir);
  const auto numbers = session::find_several(recording, asking.process);
  if (!numbers) return races_of(asking, nullptr);
  int status = 0;
  for (uint64_t n : *numbers) {
    if (recording::is_without_events(recording, n)) continue;
    asking.process = fmt::format("#{}", n);
    status = std::max(status, races_of(asking, &n));
  }
  return status;
}

}  // namespace backstep::cli
