// `backstep count`: how often events match in a recorded run.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"

namespace backstep::cli {
namespace {

Json count_json(const session::Count& c) {
  Json object{{"spec", c.spec}, {"count", c.matches}};
  if (c.failures) object["failures"] = c.failures;
  return object;
}

// The sum, and below it the share of each process that has one.
void print_counts_of_each(const std::vector<session::CountOfEach>& counts, bool json) {
  Json list = Json::array();
  size_t width = 0;
  for (const auto& c : counts) width = std::max(width, format_count(c.sum.matches).size());
  for (const auto& c : counts) {
    Json object = count_json(c.sum), shares = Json::array();
    if (!json) put_line(fmt::format("{:>{}}  {}", format_count(c.sum.matches), width, c.sum.spec));
    for (const auto& [process, share] : c.shares) {
      Json& of_process = shares.emplace_back(Json::object());
      add_process(of_process, process);
      of_process["count"] = share.matches;
      if (!json && share.matches)
        put_line(fmt::format("{:>{}}    {}", format_count(share.matches), width, process_title(process)));
    }
    object["processes"] = shares;
    list.push_back(object);
    if (!json) tell_failures(c.sum, true);
  }
  if (json) put_line(list.dump());
}

}  // namespace

int count_command(const Args& args) {
  Asking asking;
  std::vector<std::string> specs;
  CommandLine line(
      "count", "[options] SPEC... [DIR]",
      "Counts how often events match in a recorded run, exactly, without running the program again.\n"
      "All are counted in one replay, on all processors. SPEC: 'backstep events' has the grammar.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep count 'call malloc' 'call free'\n"
      "  backstep count 'parse.c:42 if n > 10' 'write total'\n"
      "  backstep count 'syscall write after if $retval < 0' --json server-3\n"
      "  backstep count 'call insert then call abort' --from 50%\n"
      "  backstep count 'syscall openat' -p all make-1     # in all processes");
  asking.add_options(line);
  line.add_option("SPEC", specs);
  if (auto status = line.parse_args(args)) return *status;
  if (specs.empty())
    throw Error("what is to be counted? For example: backstep count 'call malloc'", kExitUsage);
  asking.take_dir(specs, 1);
  ProgressBar bar("counting");
  if (auto several = asking.open_several()) {
    const auto counts = several->count(specs, asking.stretch_of_each(), bar.watcher());
    bar.clear();
    print_counts_of_each(counts, asking.json);
    return 0;
  }
  auto session = asking.open();
  const auto counts = session->count(specs, asking.stretch(*session), bar.watcher());
  bar.clear();
  if (asking.json) {
    Json list = Json::array();
    for (const auto& c : counts) list.push_back(count_json(c));
    put_line(list.dump());
    return 0;
  }
  size_t width = 0;
  for (const auto& c : counts) width = std::max(width, format_count(c.matches).size());
  for (const auto& c : counts) {
    put_line(fmt::format("{:>{}}  {}", format_count(c.matches), width, c.spec));
    tell_failures(c, true);
  }
  return 0;
}

}  // namespace backstep::cli
