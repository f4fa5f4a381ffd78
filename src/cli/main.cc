// backstep: the table of contents. What each command does is in the file of its name; what it stands on is in
// the layers above (docs/architecture.md).
#include <cpuid.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/version.h"
#include "cli/commands.h"
#include "guest/image.h"
#include "record/record.h"

namespace {

using namespace backstep;
using namespace backstep::cli;

constexpr Command kCommands[] = {
    {"record", "run a program and record the run", record_command},
    {"replay", "run a recording again, exactly", replay_command},
    {"ls", "list recordings", ls_command},
    {"info", "what is in a recording: command, end, crash, events, size", info_command},
    {"ps", "the processes of a recording", ps_command},
    {"dump", "every event of a recording, system calls decoded", dump_command},
    {"syscalls", "system calls, as strace shows them: by name and condition, totals", syscalls_command},
    {"count", "how often something happens in a recorded run", count_command},
    {"log", "a log line for each time that something happens", log_command},
    {"calls", "every call of a function, with arguments and result", calls_command},
    {"profile", "where the ticks of a recorded run went", profile_command},
    {"coverage", "which lines and functions recorded runs executed", coverage_command},
    {"query", "the n-th time that something happens, forwards or backwards", query_command},
    {"assert", "whether what should always or never be so is so, for scripts and CI", assert_command},
    {"why", "where a value came from: stores, computations, files, arguments", why_command},
    {"diff", "where two recordings of the same program part", diff_command},
    {"allocs", "the heap: what was never freed; wrong frees and accesses", allocs_command},
    {"races", "accesses of two threads that nothing orders", races_command},
    {"probe", "your own code, run inside of a recorded run", probe_command},
    {"sql", "the recorded history as tables: calls, stores, system calls, output, …", sql_command},
    {"cluster", "distributed programs: recordings of several hosts as one run", cluster_command},
    {"session", "a recording that programs can ask, over JSON-RPC", session_command},
    {"events", "the kinds of events, and how they are written", events_command},
    {"checkpoints", "the checkpoints of a recording: list, make, remove", checkpoints_command},
    {"trace", "what is kept of a run so that questions are answered at once", trace_command},
    {"rm", "remove recordings", rm_command},
    {"pack", "make a recording self-contained, to move or send it", pack_command},
};

void print_help(FILE* out) {
  fmt::print(out,
             "usage: backstep COMMAND [ARG...]\n\n"
             "Backstep records one run of a program and replays that run exactly, as often as you like.\n\n"
             "  backstep record ./program      run it as always, and record\n"
             "  backstep replay                the same run again in gdb, forwards and backwards\n"
             "  backstep replay --autopilot    … to its end, without a debugger\n\n"
             "Commands ('backstep COMMAND --help' explains each):\n");
  for (const Command& command : kCommands) fmt::print(out, "  {:<11} {}\n", command.name, command.summary);
  fmt::print(out, "\n  backstep --version, backstep --help\n");
}

// The log's checksums and the hot world use the crc32 instruction.
void check_cpu() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_2))
    throw Error("this CPU is too old for backstep: it has no SSE4.2");
}

// `backstep ./prog` and `backstep python3 x.py` want to record.
std::string unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  std::string text = fmt::format("there is no command '{}'", name);
  if (const std::string near = did_you_mean(name, names); !near.empty()) return text + near;
  if (guest::is_program(name))
    return text + fmt::format("; to record that program: backstep record {} …", name);
  return text + "; 'backstep --help' lists them";
}

int run(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return kExitUsage;
  }
  std::string name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    if (argc > 2 && name == "help")
      return run(3, std::array{argv[0], argv[2], const_cast<char*>("--help")}.data());
    print_help(stdout);
    return 0;
  }
  if (name == "--version" || name == "-V") {
    fmt::print("backstep {}\n", kVersion);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    check_cpu();
    return command.run(Args(argv + 2, argv + argc));
  }
  throw Error(unknown_command(name), kExitUsage);
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  try {
    if (is_succession()) return succeed();
    status = run(argc, argv);
  } catch (const std::exception& e) {
    status = tell(e);
  }
  // A full disk behind `backstep dump >file` must not look like success.
  if (fflush(stdout) != 0 && status == 0) {
    fmt::print(stderr, "backstep: cannot write the output: {}\n", errno_text(errno));
    status = kExitFailure;
  }
  return status;
}
