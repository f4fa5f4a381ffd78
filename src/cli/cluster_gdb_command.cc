// `backstep cluster gdb`: one process or several, each at its place in a cut, as inferiors of one gdb.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/cluster_commands.h"
#include "cli/format.h"
#include "serve/serve.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using cluster::Cut;
using cluster::Place;

// What gdb learns besides if it has several: a movement of one takes the others along. The cut is found by
// ourselves, as by `cluster break`.
constexpr std::string_view kFollowScript = R"GDB(
python
import gdb, json, subprocess

class BackstepFollow(gdb.Command):
    """Move the other processes to where they are when this one is here.
follow, follow causal: all that happened before has happened, and no more.
follow optimistic: they run on as far as they can while this one stands here.
follow always [causal|optimistic]: from now on in front of each prompt, if a process has stopped.
follow never: no more."""

    def __init__(self):
        super().__init__("follow", gdb.COMMAND_RUNNING)
        self.manner, self.busy, self.due = None, False, False
        gdb.events.stop.connect(self.stopped)
        gdb.events.before_prompt.connect(self.at_prompt)

    def stopped(self, event):
        self.due = not self.busy

    # Not when it stops: gdb takes no movements of others then.
    def at_prompt(self):
        if not (self.manner and self.due):
            return
        self.due = False
        try:
            self.move(self.manner)
        except gdb.error as e:
            print(e)

    def move(self, manner):
        here = gdb.selected_inferior().num
        if here not in backstep_processes:
            raise gdb.GdbError("this inferior is no process of the run")
        thread = gdb.selected_thread()
        at = gdb.execute("monitor when", to_string=True).split(",")[0].strip()
        cut = subprocess.run([backstep_program, "cluster", "break", backstep_run, backstep_processes[here], at,
                              "--" + manner, "--quick", "--json", "--name", "gdb"], capture_output=True, text=True)
        if cut.returncode:
            raise gdb.GdbError(cut.stderr.strip())
        numbers = {name: number for number, name in backstep_processes.items()}
        self.busy = True
        try:
            for place in json.loads(cut.stdout)["processes"]:
                number = numbers.get(place["process"])
                if number in (None, here):
                    continue
                unborn = place["state"] == "unborn"
                if not unborn:
                    gdb.execute("inferior %d" % number, to_string=True)
                    gdb.execute("goto " + ("end" if place["state"] == "ended" else place["at"]), to_string=True)
                frame = "" if unborn else gdb.execute("frame", to_string=True).splitlines()[0]
                print("%s %s: %s%s" % (place["process"], place["state"], frame, place["why"] and " (" + place["why"] + ")"))
        finally:
            if thread is not None and thread.is_valid():
                gdb.execute("inferior %d" % here, to_string=True)
                thread.switch()
            self.busy = False

    def invoke(self, argument, from_tty):
        words = argument.split()
        always = words[:1] == ["always"]
        manner = (words[1:] if always else words) or ["causal"]
        if words == ["never"]:
            self.manner = None
        elif len(manner) != 1 or manner[0] not in ("causal", "optimistic"):
            raise gdb.GdbError("follow [always] [causal|optimistic], or follow never")
        elif always:
            self.manner = manner[0]
        else:
            self.move(manner[0])

BackstepFollow()
end
)GDB";

std::string python_text(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// A file of commands that only gdb, which this process becomes, can see.
std::string follow_script(const OpenRun& run, const std::vector<cluster::ProcessId>& processes) {
  std::string names;
  for (size_t i = 0; i < processes.size(); i++)
    names += fmt::format("{}: {}, ", i + 1, python_text(run.history.processes[processes[i]].name));
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  const std::string text =
      fmt::format("python backstep_program, backstep_run, backstep_processes = {}, {}, {{{}}}\n",
                  python_text({self, length > 0 ? static_cast<size_t>(length) : 0}),
                  python_text(run.history.run), names) +
      std::string(kFollowScript);
  const int file = memfd_create("backstep-gdb-follow", 0);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error("cannot write commands for gdb: " + errno_text(errno));
  return fmt::format("/proc/self/fd/{}", file);
}

ReplayOptions at_place(const OpenRun& run, const Cut& cut, cluster::ProcessId process,
                       ReplayOptions options) {
  const Place& place = cut.places[process];
  const auto& p = run.history.processes[process];
  if (place.state == Place::Unborn)
    throw Error(fmt::format("{} has not been created yet in the cut '{}'", p.name, cut.name), kExitUsage);
  options.recording = run.history.hosts[p.host].recording;
  options.process = p.log;
  options.chosen = true;
  options.at = place.at.tick ? timeline::point_text(place.at.tick, place.at.pc) : "start";
  if (place.state == Place::Ended) options.at = "end";
  return options;
}

}  // namespace

int cluster_gdb_command(const Args& args) {
  std::vector<std::string> words;
  ReplayOptions options;
  CommandLine line(
      "cluster gdb", "[options] RUN PROCESS... [CUT] [-- GDB-ARG...]",
      "gdb on a process of a distributed run, at its place in a cut (the present one); as\n"
      "'backstep replay', it goes forwards and backwards from there. Several processes are\n"
      "inferiors 1, 2, … of one gdb ('inferior 2' changes over); each moves by itself, and 'follow\n"
      "[causal|optimistic]' takes the others to where they are when this one is here, 'follow always'\n"
      "after each stop.",
      "Examples:\n"
      "  backstep cluster gdb run A/server\n"
      "  backstep cluster gdb run A/server B/client C/worker break-1\n"
      "  backstep cluster gdb run A/server break-1 -- -batch -ex bt");
  line.add_flag("-q,--quiet", options.quiet, "no progress and no closing line");
  line.add_engine_options(options.engine);
  line.add_option("RUN", words);
  const auto dashes = std::find(args.begin(), args.end(), "--");
  if (dashes != args.end()) options.gdb_args.assign(dashes + 1, args.end());
  if (auto status = line.parse_args(Args(args.begin(), dashes))) return *status;
  if (words.size() < 2) throw Error("which run, and which of its processes?", kExitUsage);
  std::vector<ReplayOptions> all;
  {
    OpenRun run(words[0], options);
    const bool has_cut = words.size() > 2 && run.history.find(words.back()) == cluster::kNone &&
                         words.back().find('/') == std::string::npos;
    const bool has_file = words.size() > 2 && access(words.back().c_str(), F_OK) == 0 && !has_cut;
    std::vector<cluster::ProcessId> processes;
    for (size_t i = 1; i < words.size() - (has_cut || has_file); i++)
      processes.push_back(run.process(words[i]));
    const Cut cut = run.cut(has_cut || has_file ? words.back() : "");
    for (const cluster::ProcessId p : processes) all.push_back(at_place(run, cut, p, options));
    if (all.size() > 1)
      all[0].gdb_args.insert(all[0].gdb_args.begin(), {"-x", follow_script(run, processes)});
  }
  return serve::start_gdb(all[0], {}, {all.begin() + 1, all.end()});
}

}  // namespace backstep::cli
