// Every call of a function: when, with what, from where, with what result, and how long it took.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct Call {
  enum class End : uint8_t {
    Returned,
    Jumped,   // to another function, whose result is its own: a tail call
    Unknown,  // it has not returned by the end of the stretch, or was left by longjmp or an exception
  };
  std::string function;
  ControlPoint at;
  int thread = 1;
  std::vector<std::pair<std::string, std::string>> args;  // names (empty: not known) and values
  std::vector<nlohmann::ordered_json> args_json;
  bool args_known = false;  // how many there are is known
  End end = End::Unknown;
  std::optional<ControlPoint> left;
  std::string result;  // empty: none
  nlohmann::ordered_json result_json;
  StackFrame caller;
};

// In the order in which they began; false from `call` ends it.
void calls(Session& session, const std::string& function, const Stretch& stretch,
           const std::function<bool(const Call&)>& call, const Watcher& watcher);

// Of several functions, in the order in which they ended: each is told as soon as it is over, so nothing is
// kept of the others. Those that did not return come last.
struct CallsRequest {
  std::vector<symbols::Function> functions;
  Stretch stretch;           // … in which they began
  bool to_their_end = true;  // looks on behind the stretch until all of them are over; else those are Unknown
};
void calls_as_they_end(Session& session, const CallsRequest& request,
                       const std::function<bool(const Call&)>& call, const Watcher& watcher);

}  // namespace backstep::session
