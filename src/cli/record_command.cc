// `backstep record`: options up to the first word that is not one of them; that word is the program, and all
// that follows is the program's.
#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/hunt.h"
#include "cli/options.h"
#include "record/record.h"

namespace backstep::cli {
namespace {

// Less has no room for what a program begins with.
uint64_t at_least_a_megabyte(const std::string& limit) {
  constexpr uint64_t kLeast = 1'000'000;
  const uint64_t bytes = parse_size(limit);
  if (bytes < kLeast) throw Error(fmt::format("--limit {}: at least 1MB", limit), kExitUsage);
  return bytes;
}

}  // namespace

int record_command(const Args& args) {
  RecordOptions options;
  std::string check;
  CommandLine line("record", "[-o DIR] [options] [--] PROGRAM [ARG...]",
                   "Runs PROGRAM and records everything that it cannot compute by itself, so that\n"
                   "'backstep replay' can run it again exactly. The program keeps its terminal,\n"
                   "input, output and exit status; the exit status of 'backstep record' is the program's.\n"
                   "If PROGRAM cannot be run it is 127 (not found) or 126, as in a shell.\n\n"
                   "Recordings go to $BACKSTEP_DIR, else $XDG_DATA_HOME/backstep, else\n"
                   "~/.local/share/backstep, as PROGRAM-1, PROGRAM-2, ...; 'latest' is the newest.",
                   "Examples:\n"
                   "  backstep record ls -l             options after the program are the program's\n"
                   "  backstep record -o bug1 ./server  into the folder bug1\n"
                   "  backstep record -- -odd-name      a program whose name starts with '-'\n"
                   "  backstep record --chaos ./server  provoke bugs that depend on timing\n"
                   "  backstep record --until-failure=1000 --chaos ./test\n"
                   "                                    again and again; keep the one that fails\n"
                   "  backstep record --checkpoints=1 ./server\n"
                   "                                    any moment of it is near from the start\n"
                   "  backstep replay --autopilot       replay what was just recorded");
  line.add_option("-o,--output", options.output, "folder to record into; must not exist yet")
      .type_name("DIR");
  line.add_flag("-q,--quiet", options.quiet, "do not print the closing line");
  line.add_option("--cpu", options.cpu,
                  "highest CPU feature level that the program sees (x86-64,\n"
                  "x86-64-v2, x86-64-v3), to replay on older machines")
      .type_name("LEVEL")
      .among({"x86-64", "x86-64-v2", "x86-64-v3"});
  line.add_option("--check", check, "also log checksums of memory, for 'replay --check=deep'")
      .type_name("deep")
      .among({"deep"});
  bool no_follow = false;
  line.add_flag("--no-follow", no_follow, "record the first process only, not its children");
  line.add_option("--follow", options.follow,
                  "of the programs that it becomes or starts (execve), record those\n"
                  "whose path or name matches the pattern; others run unrecorded")
      .type_name("PATTERN");
  std::string chaos;
  line.add_flag("--chaos{random}", chaos,
                "disturb the program as much as it must be able to bear (random\n"
                "turns of threads, delayed wake-ups, short reads and writes), to\n"
                "find races; --chaos=SEED makes the choices of an earlier run")
      .type_name("[=SEED]");
  line.add_option("--checkpoints", options.checkpoints,
                  "make checkpoints every so many seconds of CPU time, so that the\n"
                  "first debugging session finds them already (default: none)")
      .type_name("SECONDS")
      .between(0.0, 1e6);
  std::string limit;
  line.add_option("--limit", limit,
                  "end the recording, not the program, when its events have taken so\n"
                  "much room, as 500MB or 4GB (before they are compressed)")
      .type_name("SIZE");
  bool no_pack = false;
  line.add_flag("--no-pack", no_pack,
                "do not compress long logs in the background; 'backstep pack' does\n"
                "it later");
  line.add_option("--host", options.host,
                  "name of this host in a distributed run, for 'backstep cluster'\n"
                  "(default: the machine's)")
      .type_name("NAME");
  std::string until_failure;
  Hunt hunt;
  line.add_flag("--until-failure{0}", until_failure,
                "run it again and again, N times at most, until it fails: exit\n"
                "status other than 0, or a signal; keep the recording of that run only")
      .type_name("[=N]");
  line.add_option("--fail-if", hunt.fail_if,
                  "with --until-failure: a run has failed if this shell command succeeds;\n"
                  "$BACKSTEP_RECORDING is the recording, $BACKSTEP_STATUS its exit status")
      .type_name("COMMAND");
  line.add_engine_options(options.engine);

  size_t own = line.leading_options(args);
  if (auto status = line.parse_args(Args(args.begin(), args.begin() + static_cast<ptrdiff_t>(own))))
    return *status;
  if (own < args.size() && args[own] == "--") {
    own++;
  } else if (own < args.size() && args[own].size() > 1 && args[own][0] == '-') {
    throw Error(fmt::format("record has no option {}; a program whose name starts with '-' goes behind '--'\n"
                            "See 'backstep record --help'.",
                            args[own]),
                kExitUsage);
  }
  options.command.assign(args.begin() + static_cast<ptrdiff_t>(own), args.end());
  if (options.command.empty())
    throw Error("record what? usage: backstep record [-o DIR] [options] [--] PROGRAM [ARG...]", kExitUsage);
  options.check_deep = check == "deep";
  if (no_follow) options.follow.clear();
  options.pack = !no_pack;
  if (!limit.empty()) options.limit = at_least_a_megabyte(limit);
  if (chaos == "random") {
    options.chaos = random_seed();
  } else if (!chaos.empty()) {
    uint64_t seed = 0;
    auto [end, error] = std::from_chars(chaos.data(), chaos.data() + chaos.size(), seed);
    if (error != std::errc() || end != chaos.data() + chaos.size())
      throw Error(fmt::format("--chaos={}: the seed is a number", chaos), kExitUsage);
    options.chaos = seed;
  }
  if (until_failure.empty()) {
    if (!hunt.fail_if.empty()) throw Error("--fail-if goes with --until-failure", kExitUsage);
    return record(options);
  }
  const auto [end, error] =
      std::from_chars(until_failure.data(), until_failure.data() + until_failure.size(), hunt.most);
  if (error != std::errc() || end != until_failure.data() + until_failure.size())
    throw Error(fmt::format("--until-failure={}: that is a number of runs", until_failure), kExitUsage);
  hunt.new_seeds = chaos == "random";
  return run_until_failure(options, hunt);
}

}  // namespace backstep::cli
