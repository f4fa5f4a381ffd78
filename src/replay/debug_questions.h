// What debug code wants to know that only the controller can tell, because it has the symbols and the log's
// index: what an event that it names is, and where the recorded program is.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "replay/taps.h"

namespace backstep::replayer {

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
