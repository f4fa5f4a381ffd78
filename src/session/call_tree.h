// What a call called, and what those called.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "session/calls.h"

namespace backstep::session {

// All calls of a function by the same chain of callers.
struct CallNode {
  std::string function;
  uint64_t count = 0;
  Tick ticks = 0;                                // until they returned, with all that they called
  std::vector<std::unique_ptr<CallNode>> calls;  // in the order of their first ones

  // Of what is below: an array of function, count, ticks, calls.
  nlohmann::ordered_json to_json() const;
};

struct CallWithTree {
  Call call;
  CallNode tree;
};

struct TreeRequest {
  std::string function;
  Stretch stretch;
  bool system = false;   // what functions of the system's libraries call among themselves, too
  uint64_t depth = 100;  // how deep
  uint64_t limit = 100;  // calls, the first ones
};

// The calls of a function that are not below another one of it, in the order in which they began.
std::vector<CallWithTree> call_trees(Session& session, const TreeRequest& request, const Watcher& watcher);

}  // namespace backstep::session
