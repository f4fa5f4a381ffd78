// `backstep count`: how often events match in a recorded run.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"

namespace backstep::cli {

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
      "  backstep count 'call insert then call abort' --from 50%");
  asking.add_options(line);
  line.add_option("SPEC", specs);
  if (auto status = line.parse_args(args)) return *status;
  if (specs.empty())
    throw Error("what is to be counted? For example: backstep count 'call malloc'", kExitUsage);
  asking.take_dir(specs, 1);
  auto session = asking.open();
  ProgressBar bar("counting");
  const auto counts = session->count(specs, asking.stretch(*session), bar.watcher());
  bar.clear();
  if (asking.json) {
    Json list = Json::array();
    for (const auto& c : counts) {
      Json object{{"spec", c.spec}, {"count", c.matches}};
      if (c.failures) object["failures"] = c.failures;
      list.push_back(object);
    }
    put_line(list.dump());
    return 0;
  }
  size_t width = 0;
  for (const auto& c : counts) width = std::max(width, format_count(c.matches).size());
  for (const auto& c : counts) {
    put_line(fmt::format("{:>{}}  {}", format_count(c.matches), width, c.spec));
    if (c.failures)
      fmt::print(stderr,
                 "backstep: the condition of '{}' could not be evaluated {} times (memory that is not there, "
                 "or a division by zero): no matches there\n",
                 c.spec, format_count(c.failures));
  }
  return 0;
}

}  // namespace backstep::cli
