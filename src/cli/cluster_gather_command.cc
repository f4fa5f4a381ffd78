// `backstep cluster gather`: the recordings of all hosts into one folder.
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/cluster_commands.h"
#include "cluster/gather.h"

namespace backstep::cli {

int cluster_gather_command(const Args& args) {
  std::vector<std::string> sources;
  std::string output;
  cluster::GatherOptions options;
  CommandLine line(
      "cluster gather", "RECORDING... -o RUN",
      "Copies recordings of several hosts into the folder RUN, with all that their replay needs.\n"
      "RECORDING is a folder, the name of a recording, or HOST:PATH, which rsync fetches (run\n"
      "'backstep pack PATH' there before). Hosts are called what 'backstep record --host' said,\n"
      "or by the machines' names; if two have the same name the second one becomes NAME.2.\n"
      "Each file has a checksum. A call that was broken off is simply made again, and goes on;\n"
      "to add a host, name its recording and the same RUN.",
      "Examples:\n"
      "  backstep cluster gather /net/a/server-1 /net/b/client-1 -o run\n"
      "  backstep cluster gather a:recordings/server-1 b:recordings/client-1 -o run\n"
      "  backstep cluster check run");
  line.add_option("RECORDING", sources, "recordings");
  line.add_option("-o,--output", output, "the run's folder; made if it is not there").type_name("RUN");
  line.add_option("--rsh", options.rsh, "how rsync reaches other machines (default: ssh)")
      .type_name("COMMAND");
  if (auto status = line.parse_args(args)) return *status;
  if (sources.empty() || output.empty())
    throw Error("usage: backstep cluster gather RECORDING... -o RUN", kExitUsage);
  const bool terminal = isatty(2);
  options.progress = [&](const std::string& text, double part) {
    if (terminal) fmt::print(stderr, "\r{:<40} {:3.0f} %", text, part * 100);
  };
  cluster::RunFolder run = cluster::RunFolder::make(output);
  if (run.is_recording())
    throw Error(fmt::format("{} is a recording, not a run: choose another folder", output), kExitUsage);
  cluster::gather(run, sources, options);
  if (terminal) fmt::print(stderr, "\r{:<50}\r", "");
  std::string names;
  for (const auto& host : run.hosts()) names += (names.empty() ? "" : ", ") + host.name;
  fmt::print("{}: {} host{}: {}\n", output, run.hosts().size(), run.hosts().size() == 1 ? "" : "s", names);
  return 0;
}

}  // namespace backstep::cli
