// `backstep cluster`: a table of contents of its own.
#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/cluster_commands.h"

namespace backstep::cli {
namespace {

constexpr Command kCommands[] = {
    {"record", "start and record the programs of several hosts", cluster_record_command},
    {"gather", "bring the recordings of several hosts together", cluster_gather_command},
    {"check", "what is missing or odd in a run", cluster_check_command},
    {"ls", "processes, channels and messages of a run", cluster_ls_command},
    {"info", "hosts, totals, clocks", cluster_info_command},
    {"break", "stop processes at breakpoints, and all others where that makes sense", cluster_break_command},
    {"step", "move one process, and the others with it", cluster_step_command},
    {"goto", "go to a cut", cluster_goto_command},
    {"cuts", "list, show and remove cuts", cluster_cuts_command},
    {"mark", "give the present cut a name", cluster_mark_command},
    {"blocked", "who waits for what in a cut; deadlocks", cluster_blocked_command},
    {"suspended", "who was to stop in a cut, and does", cluster_suspended_command},
    {"delayed", "whom the replay holds back in a cut", cluster_delayed_command},
    {"path", "a request's way through all processes", cluster_path_command},
    {"svg", "the space-time diagram: processes, messages, a cut", cluster_svg_command},
    {"events", "what the processes did to each other", cluster_events_command},
    {"sql", "the run as tables", cluster_sql_command},
    {"gdb", "gdb on a process, at its place in a cut", cluster_gdb_command},
};

void print_help(FILE* out) {
  fmt::print(out,
             "usage: backstep cluster COMMAND RUN [ARG...]\n\n"
             "A distributed program: recordings of several hosts as one run. RUN is its folder, or one "
             "recording.\n\n"
             "Commands ('backstep cluster COMMAND --help' explains each):\n");
  for (const Command& command : kCommands) fmt::print(out, "  {:<11} {}\n", command.name, command.summary);
  fmt::print(out,
             "\nExamples:\n"
             "  backstep cluster break run A/server server.c:120\n"
             "  backstep cluster gdb run B/client\n"
             "  backstep cluster svg run -o run.svg\n");
}

}  // namespace

int cluster_command(const Args& args) {
  if (args.empty()) {
    print_help(stderr);
    return kExitUsage;
  }
  if (args[0] == "--help" || args[0] == "-h") {
    print_help(stdout);
    return 0;
  }
  for (const Command& command : kCommands)
    if (args[0] == command.name) return command.run(Args(args.begin() + 1, args.end()));
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = did_you_mean(args[0], names);
  throw Error(fmt::format("there is no command 'cluster {}'{}", args[0],
                          near.empty() ? "; 'backstep cluster --help' lists them" : near),
              kExitUsage);
}

}  // namespace backstep::cli
