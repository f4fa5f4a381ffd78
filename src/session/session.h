// A recording that is being asked: one of its processes, at one moment of its history, with all that is known
// of its program. Everything that a front end can ask goes through here, with structured answers; commands,
// protocols and debuggers only put them into words.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "events/spec.h"
#include "recording/library.h"
#include "symbols/expression.h"
#include "symbols/program.h"
#include "symbols/unwind.h"
#include "timeline/timeline.h"

namespace backstep::session {

using timeline::Position;

// A stretch of the run: [from, to); none: from its beginning, to its end.
struct Stretch {
  std::optional<Position> from, to;
};

struct Count {
  std::string spec;
  uint64_t matches = 0;
  uint64_t failures = 0;  // how often its condition could not be evaluated
  std::string unknown;    // not empty: it makes no sense in this program, a sentence
};

// One place in a backtrace, inlined functions included.
struct StackFrame {
  Address pc = 0;
  std::string function, file;  // empty: not known
  int line = 0;
  bool inlined = false;     // into the next one
  std::string module = {};  // if the function is not known: the file that it is of
};

nlohmann::ordered_json frame_json(const StackFrame& frame);
nlohmann::ordered_json frames_json(const std::vector<StackFrame>& stack);

// One match that was logged.
struct Hit {
  ControlPoint at;
  uint64_t event = 0;
  int thread = 1;                            // virtual name
  std::vector<std::string> values;           // as people read them
  std::vector<nlohmann::ordered_json> json;  // … and scripts
  std::vector<StackFrame> stack;             // innermost first, if asked for
  bool stack_complete = true;

  Position position() const { return {at.tick, event, at.pc}; }
};

struct LogRequest {
  std::string spec;
  std::vector<std::string> values;  // expressions
  bool stack = false;
  Stretch stretch;
};

// How a piece of work that takes its time tells of it.
struct Watcher {
  std::function<void(double done)> progress;  // 0 to 1
  std::function<void(const std::string& sentence)> note;
};

class Session {
 public:
  // `ear`: as for Timeline.
  Session(const ReplayOptions& options, const recording::Library& library,
          const recording::Recording& recording, const timeline::Attention& ear = {});

  timeline::Timeline& timeline() { return timeline_; }
  const timeline::Timeline& timeline() const { return timeline_; }
  const symbols::Program& program() const;  // read when it is first asked for
  symbols::Compiler& compiler();
  const recording::Recording& recording() const { return recording_; }

  // How often each event matches. All are counted in one go. `lenient`: one that makes no sense here is
  // `unknown`, which is an Error else.
  std::vector<Count> count(const std::vector<std::string>& specs, const Stretch& stretch,
                           const Watcher& watcher, bool lenient = false);
  // Each match in the order of time; false from `hit` ends it.
  Count log(const LogRequest& request, const std::function<bool(const Hit&)>& hit, const Watcher& watcher);
  // The last `most` matches, in the order of time; looks at no more of the run than it must.
  std::vector<Hit> log_last(const LogRequest& request, size_t most, const Watcher& watcher);

  // The stretch in parts, some windows each, from its end back: first few, then more. True from `part`:
  // enough.
  void backwards(const Stretch& stretch, const std::function<bool(const Stretch&)>& part) const;

  // Moves to the next match of any of the events, or to the last one before the present.
  timeline::Arrival go_to_match(const std::vector<std::string>& specs, bool forward);

  // A moment as one writes it (timeline/moments.h). Throws Error.
  Position moment(const std::string& text) const;

  // From registers and the bytes at rsp.
  std::vector<StackFrame> frames(const symbols::UnwindRegisters& registers, Address stack,
                                 std::span<const uint8_t> bytes, bool* complete) const;
  std::vector<StackFrame> named(const symbols::Stack& stack) const;

 private:
  const std::vector<Position>* matches_of(const std::string& spec);

  recording::Library library_;
  recording::Recording recording_;
  timeline::Timeline timeline_;
  mutable std::optional<symbols::Program> program_;
  std::optional<symbols::Compiler> compiler_;
  std::map<std::string, std::vector<Position>> composed_;  // matches of events that are made of several
};

}  // namespace backstep::session
