// `backstep replay`: to the end on autopilot.
#include "replay/replay.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "recording/library.h"
#include "recording/side_files.h"
#include "recording/tree.h"
#include "replay/replayer.h"

namespace backstep {

namespace {

std::string why_stopped(const recording::Recording& recording, uint64_t process) {
  try {
    for (const std::string& note : recording::Manifest::load(recording.manifest_path(process)).notes)
      if (note.starts_with("the recording ends early")) return note;
  } catch (const Error&) {
    // Then nobody knows.
  }
  return "why is not known";
}

replayer::Outcome replay_log(const ReplayOptions& options, const recording::Library& library,
                             const recording::Recording& recording) {
  replayer::Replayer replayer(options, library, recording);
  engine::install_handler(SIGALRM, SA_RESTART);
  const itimerval timer{{0, 500'000}, {1, 0}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  replayer::Outcome outcome = replayer.run();
  replayer.save_translations();
  if (options.engine.statistics) fmt::print(stderr, "backstep: {}\n", replayer.engine_statistics());
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  if (options.progress) fmt::print(stderr, "\r\033[K");
  return outcome;
}

struct Program {
  uint64_t process;
  Tick ticks;
  uint64_t events;
};

// The logs of a process that became other programs by execve, all but the last: each is replayed in a process
// of its own, since it needs the addresses of its program. Returns the exit status of the first that fails,
// which has told why on stderr.
int replay_before_exec(const ReplayOptions& options, const recording::Library& library,
                       const recording::Recording& recording, std::vector<Program>& done) {
  void* shared = mmap(nullptr, sizeof(Program), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw Error(fmt::format("no memory for the replay: {}", errno_text(errno)));
  auto* program = new (shared) Program{options.process, 0, 0};
  const pid_t parent = getpid();
  fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("cannot make a process for the replay: {}", errno_text(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kExitFailure);
    int status = 0;
    try {
      const auto outcome = replay_log(options, library, recording);
      program->ticks = outcome.ticks;
      program->events = outcome.events;
      if (!outcome.incomplete.empty()) fmt::print(stderr, "backstep: {}\n", outcome.incomplete);
      if (outcome.damaged || outcome.kind != recording::EndKind::Exec) status = kExitDivergence;
    } catch (const std::exception& e) {
      status = tell(e);
    }
    fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  done.push_back(*program);
  munmap(shared, sizeof(Program));
  if (WIFSIGNALED(status)) {
    fmt::print(stderr, "backstep: the replay of process #{} died of signal {}\n", options.process,
               WTERMSIG(status));
    return kExitFailure;
  }
  return WEXITSTATUS(status);
}

}  // namespace

int replay(const ReplayOptions& asked) {
  recording::Library library = recording::Library::standard();
  recording::Recording recording = library.resolve(asked.recording);
  ReplayOptions options = asked;
  std::vector<Program> programs;
  if (!options.chosen) {
    while (const uint64_t next = recording::next_program(recording, options.process)) {
      if (int status = replay_before_exec(options, library, recording, programs)) return status;
      options.process = next;
    }
  }
  const replayer::Outcome outcome = replay_log(options, library, recording);
  programs.push_back({options.process, outcome.ticks, outcome.events});
  bool exact = !outcome.damaged;
  if (!options.quiet)
    for (const std::string& damage : recording::damaged_side_files(recording))
      fmt::print(stderr, "backstep: {}\n", damage);
  if (options.json) {
    nlohmann::json j{{"exact", exact}, {"complete", outcome.complete}, {"status", outcome.status}};
    j["ticks"] = std::accumulate(programs.begin(), programs.end(), Tick{0},
                                 [](Tick sum, const Program& p) { return sum + p.ticks; });
    j["events"] = std::accumulate(programs.begin(), programs.end(), uint64_t{0},
                                  [](uint64_t sum, const Program& p) { return sum + p.events; });
    for (const Program& p : programs)
      j["programs"].push_back({{"process", p.process}, {"ticks", p.ticks}, {"events", p.events}});
    if (!outcome.incomplete.empty()) j["incomplete"] = outcome.incomplete;
    fmt::print(stderr, "{}\n", j.dump());
  } else if (outcome.complete && outcome.kind == recording::EndKind::Stopped) {
    fmt::print(
        stderr,
        "backstep: the recording was stopped before the program ended, and replayed up to there ({})\n",
        why_stopped(recording, options.process));
  } else if (!outcome.incomplete.empty()) {
    fmt::print(stderr, "backstep: {} ({} events, {} ticks)\n", outcome.incomplete, outcome.events,
               outcome.ticks);
  }
  return exact ? 0 : kExitDivergence;
}

}  // namespace backstep
