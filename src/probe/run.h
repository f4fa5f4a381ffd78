// Running a debug module over a stretch of a recording.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "probe/module.h"
#include "replay/taps.h"
#include "session/session.h"

namespace backstep::probe {

// What debug code has said at one moment of the recorded run.
struct Note {
  replayer::DebugNote kind;
  session::Position at;
  int thread = 1;                  // virtual name
  const Region* region = nullptr;  // whose call it was
  std::string text;                // Failure: a sentence whose subject is "it", without a full stop
  // Failure: where in the debug code that was; innermost first, empty if it is not known.
  std::vector<symbols::Program::InlineFrame> stack;
  std::string file;  // … and the line of it that is the user's own
  int line = 0;
};

struct RunRequest {
  session::Stretch stretch;
  // Each window begins with fresh debug code, on all processors: for debug code that keeps nothing between
  // its calls.
  bool parallel = false;
};

struct RunResult {
  std::vector<uint64_t> calls;  // of each place
  bool complete = true;         // false: somebody wanted to stop
};

// Calls back in the order of time; false from `tell`: enough.
RunResult run(session::Session& session, const Module& module, const RunRequest& request,
              const std::function<bool(const Note&)>& tell, const session::Watcher& watcher);

}  // namespace backstep::probe
