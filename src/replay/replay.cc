// `backstep replay`: to the end on autopilot.
#include "replay/replay.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/engine.h"
#include "recording/library.h"
#include "recording/side_files.h"
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

}  // namespace

int replay(const ReplayOptions& options) {
  recording::Library library = recording::Library::standard();
  recording::Recording recording = library.resolve(options.recording);
  replayer::Replayer replayer(options, library, recording);
  if (options.progress) {
    engine::install_handler(SIGALRM, SA_RESTART);
    itimerval timer{{0, 500'000}, {1, 0}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  replayer::Outcome outcome = replayer.run();
  replayer.save_translations();
  if (options.engine.statistics) fmt::print(stderr, "backstep: {}\n", replayer.engine_statistics());
  if (options.progress) {
    itimerval off{};
    setitimer(ITIMER_REAL, &off, nullptr);
    fmt::print(stderr, "\r\033[K");
  }
  bool exact = !outcome.damaged;
  if (!options.quiet)
    for (const std::string& damage : recording::damaged_side_files(recording))
      fmt::print(stderr, "backstep: {}\n", damage);
  if (options.json) {
    nlohmann::json j{{"exact", exact},
                     {"complete", outcome.complete},
                     {"ticks", outcome.ticks},
                     {"events", outcome.events},
                     {"status", outcome.status}};
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
