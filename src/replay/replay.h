// Replaying a recording: `backstep replay`.
#pragma once
#include <string>
#include <vector>

#include "engine/options.h"

namespace backstep {

struct ReplayOptions {
  std::string recording;   // resolved folder
  uint64_t process = 1;    // number of the log
  bool chosen = false;     // … which the user has named
  bool autopilot = false;  // no debugger: to the end
  std::string serve;       // [HOST:]PORT of the gdb server; empty: none
  std::string at;          // gdb: where to begin, as for goto; empty: at the crash, else the start
  std::string last_write, last_change;  // gdb: start at the last write to, or change of, this expression
  std::vector<std::string> gdb_args;    // for the gdb that is started when neither of the two is asked for
  bool check_deep = false;  // verify memory checksums where the log has them, and all mapped files
  bool quiet = false;       // no closing line, no progress
  bool json = false;        // closing report as JSON on stderr (stdout is the program's)
  bool progress = false;    // stderr is a terminal: show how far a long replay is
  // Checkpoints in the recording are made every so many seconds of replay; 0: neither made nor used.
  double checkpoints = kCheckpointSeconds;
  static constexpr double kCheckpointSeconds = 0.5;
  bool store_on_autopilot = false;    // … asked for: a replay to the end makes them, too
  bool wait_for_checkpoints = false;  // making them is the purpose: the replay waits for each to be written
  EngineOptions engine;
};

// Autopilot: to the end. 0 iff the replay was exact, kExitDivergence (with a report on stderr) if not. Throws
// Error.
int replay(const ReplayOptions& options);

}  // namespace backstep
