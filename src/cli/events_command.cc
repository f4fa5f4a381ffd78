// `backstep events`: the kinds of events and how they are written.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/options.h"
#include "session/kind.h"

namespace backstep::cli {

int events_command(const Args& args) {
  bool json = false;
  CommandLine line("events", "[options]",
                   "Lists the kinds of events that 'count' and 'log' look for, and how they are written.",
                   "Examples:\n  backstep events\n  backstep events --json");
  line.add_flag("--json", json, "JSON");
  if (auto status = line.parse_args(args)) return *status;
  const auto grammar = events::grammar(session::event_forms());
  if (json) {
    Json list = Json::array();
    for (const auto& row : grammar) list.push_back({{"form", row.form}, {"meaning", row.meaning}});
    fmt::print("{}\n", list.dump());
    return 0;
  }
  size_t width = 0;
  for (const auto& row : grammar) width = std::max(width, std::string(row.form).size());
  for (const auto& row : grammar) fmt::print("{:<{}}  {}\n", row.form, width, row.meaning);
  fmt::print(
      "\nConditions and values are C expressions over variables, members, registers ($rax), and $tick, "
      "$thread,\n"
      "$arg0…, $retval, $addr, $old, $new where the event has them.\n");
  return 0;
}

}  // namespace backstep::cli
