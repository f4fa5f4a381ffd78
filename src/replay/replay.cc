// `backstep replay`: to the end on autopilot.
#include "replay/replay.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/engine.h"
#include "recording/library.h"
#include "replay/replayer.h"

namespace backstep {

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
  if (options.json) {
    nlohmann::json j{{"exact", exact},
                     {"complete", outcome.complete},
                     {"ticks", outcome.ticks},
                     {"events", outcome.events},
                     {"status", outcome.status}};
    if (!outcome.incomplete.empty()) j["incomplete"] = outcome.incomplete;
    fmt::print(stderr, "{}\n", j.dump());
  } else if (outcome.complete && outcome.kind == recording::EndKind::Stopped) {
    std::string why = "why is not known";
    for (const std::string& note : recording.manifest().notes)
      if (note.starts_with("the recording ends early")) why = note;
    fmt::print(
        stderr,
        "backstep: the recording was stopped before the program ended, and replayed up to there ({})\n", why);
  } else if (!outcome.incomplete.empty()) {
    fmt::print(stderr, "backstep: {} ({} events, {} ticks)\n", outcome.incomplete, outcome.events,
               outcome.ticks);
  }
  return exact ? 0 : kExitDivergence;
}

}  // namespace backstep
