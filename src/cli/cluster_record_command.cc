// `backstep cluster record`: starts the programs of all hosts, each under a recorder of its own, and gathers
// what they leave.
#include <signal.h>
#include <time.h>

#include <fmt/format.h>

#include "base/child.h"
#include "base/error.h"
#include "cli/cluster_commands.h"
#include "cli/interrupts.h"
#include "cluster/cluster_file.h"
#include "cluster/gather.h"

namespace backstep::cli {
namespace {

struct Launched {
  const cluster::ClusterHost* host;
  Child child;
  int status = 0;
};

// Until all have ended that end by themselves; then the others are asked to.
void see_through(std::vector<Launched>& all) {
  const timespec moment{0, 50'000'000};
  bool asked = false;
  for (;;) {
    bool any = false, waits = false;
    for (Launched& l : all) {
      if (!l.child) continue;
      if (const auto status = l.child.ended()) {
        l.status = *status;
        fmt::print(stderr, "{}: {}\n", l.host->name, end_text(l.status));
        continue;
      }
      any = true;
      waits = waits || !l.host->daemon;
    }
    if (!any) return;
    if (Interrupts::asked()) waits = false;
    if (!waits && !asked) {
      asked = true;
      // The launcher's whole session: the recorder is not always the launcher itself.
      for (Launched& l : all)
        if (l.child) kill(-l.child.pid(), SIGTERM);
    }
    nanosleep(&moment, nullptr);
  }
}

}  // namespace

int cluster_record_command(const Args& args) {
  std::string path, output;
  CommandLine line(
      "cluster record", "FILE [-o RUN]",
      "Starts programs on several hosts, each recorded there, waits for them, and gathers the\n"
      "recordings. FILE (TOML) says which:\n\n"
      "  output = \"run\"                        the run's folder\n"
      "  launch = \"ssh {host} {quoted}\"        how to start something (this is the default)\n\n"
      "  [[host]]\n"
      "  name = \"A\"\n"
      "  command = \"./server 80\"               or a list of words, which no shell sees\n"
      "  folder = \"/tmp/recording-A\"           where it records\n"
      "  launch = \"ip netns exec a {command}\"  another way for this host\n"
      "  fetch = \"A:/tmp/recording-A\"          what is gathered; default HOST:FOLDER for ssh,\n"
      "                                        FOLDER for other ways\n"
      "  record = [\"--chaos\"]                  options of 'backstep record'\n"
      "  backstep = \"/opt/bin/backstep\"        the program there\n"
      "  daemon = true                         gets SIGTERM when all others have ended\n\n"
      "In launch, {command} stands for the words of the recorder, {quoted} for all of them as one\n"
      "word for a shell. The exit status is 1 if a host could not be recorded.",
      "Examples:\n"
      "  backstep cluster record cluster.toml\n"
      "  backstep cluster check run");
  line.add_option("FILE", path, "what to start");
  line.add_option("-o,--output", output, "the run's folder, instead of the file's").type_name("RUN");
  if (auto status = line.parse_args(args)) return *status;
  if (path.empty()) throw Error("usage: backstep cluster record FILE [-o RUN]", kExitUsage);
  const cluster::ClusterFile file = cluster::ClusterFile::read(path);
  if (output.empty()) output = file.output;
  if (output.empty())
    throw Error(fmt::format("where to? {} has no output = \"FOLDER\", and there is no -o", path), kExitUsage);
  cluster::RunFolder run = cluster::RunFolder::make(output);
  const Interrupts interrupts({SIGTERM});
  std::vector<Launched> all;
  for (const auto& host : file.hosts) {
    ChildOptions options;
    options.output = 1, options.errors = 2;
    options.advice = fmt::format("host {} is started with it", host.name);
    all.push_back({&host, Child(cluster::launch_words(host), options), 0});
  }
  see_through(all);
  bool good = true;
  for (const Launched& l : all) {
    try {
      cluster::gather(run, {l.host->fetch}, {});
    } catch (const Error& e) {
      good = false;
      fmt::print(stderr, "{}: {}\n", l.host->name, e.what());
    }
  }
  fmt::print("{}: {} of {} hosts\n", output, run.hosts().size(), file.hosts.size());
  return good ? 0 : 1;
}

}  // namespace backstep::cli
