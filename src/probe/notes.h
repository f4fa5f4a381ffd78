// What debug code has said, and in which line of it that was.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

  // "parse.c:42", or the snippet.
  std::string place() const;
  // Failures and complaints as a sentence with their place and moment, a stop likewise; others: the text.
  std::string sentence() const;
  // {"at": …, "output": "text"}: the last name says what it is (docs/session-protocol.md).
  nlohmann::ordered_json to_json() const;
};

// Of one module. Both have to live as long as this.
class NoteReader {
 public:
  NoteReader(const session::Session& session, const Module& module) : session_(session), module_(module) {}
  // A record as `Tap::Run` leaves it; taps are the module's places, in their order.
  Note read(const replayer::TapRecord& record, const uint8_t* bytes);

 private:
  const session::Session& session_;
  const Module& module_;
  std::optional<symbols::Program> program_;  // read when there is a failure
};

}  // namespace backstep::probe
