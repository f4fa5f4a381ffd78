// Running a debug module over a stretch of a recording.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "probe/module.h"
#include "probe/notes.h"
#include "session/session.h"

namespace backstep::probe {

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

timeline::Taps places_of(const Module& module);

// How often the code of each region was called, at all of its places.
std::vector<std::pair<const Region*, uint64_t>> calls_of_regions(const Module& module,
                                                                 const RunResult& result);

// Calls back in the order of time; false from `tell`: enough.
RunResult run(session::Session& session, const Module& module, const RunRequest& request,
              const std::function<bool(const Note&)>& tell, const session::Watcher& watcher);

}  // namespace backstep::probe
