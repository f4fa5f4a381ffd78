// What debug code wants to know that only the controller can tell, because it has the symbols and the log's
// index: what an event that it names is, and where the recorded program is.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "replay/taps.h"

namespace backstep::replayer {

// How debug code is run.
enum class DebugMode : uint8_t {
  Window,     // over a stretch of the run, once; what it has to say is logged
  Stateless,  // … in parts, each of which begins with new debug code: it can have no callbacks
  // As somebody moves in the run. What it prints is printed where the program's own output is repeated, the
  // rest is logged. A way that repeats no output is gone for its end: then debug code says nothing, and files
  // stay as they are.
  Session,
  SessionTold,  // likewise, but what it prints is logged, too
};

inline bool is_session(DebugMode mode) {
  return mode >= DebugMode::Session;
}

struct DebugQuestion {
  enum Kind : uint8_t {
    Event,  // `event`, as docs/events.md has it
    Stack,  // `stack`
  };
  Kind kind = Event;
  Position at;
  std::string event = {};
  std::vector<uint8_t> stack = {};  // as Tap::stack: 17 registers, then the stack from rsp on
};

struct DebugAnswer {
  std::string failure = {};  // not empty: a sentence, and nothing else is there
  Taps taps = {};            // of the event
  std::vector<uint64_t> pcs = {};
  std::string text = {};  // a line for each of them
};

// Empty: nobody is there to answer.
using DebugAnswers = std::function<DebugAnswer(const DebugQuestion&)>;

}  // namespace backstep::replayer
