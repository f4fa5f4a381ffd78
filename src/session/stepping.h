// Steps as people take them through a program: by source lines, into functions and over them, out of them.
//
// A step is a movement to the next event, or to the last one, of a kind that is made for it: the beginnings
// of lines of the function at hand and of those around it, each on condition that the frame is the one that
// is meant. So what lies in between runs at the speed of a replay, however much it is, both ways.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "session/present.h"
#include "session/session.h"

namespace backstep::session {

enum class Step : uint8_t {
  Instruction,
  Line,     // to another line, in whichever function of the program
  Over,     // to another line of this function, or of one around it
  Out,      // to the caller
  Quantum,  // to the next tick, or to the one before
};
std::optional<Step> step_named(const std::string& name);

class Stepper {
 public:
  // `only_own`: lines of the system's libraries do not count, even where a step begins in one.
  explicit Stepper(Session& session, bool only_own = false) : session_(session), only_own_(only_own) {}

  // One step of a thread (0: of the one that has the turn). `why` is Stepped if all went well; End, Begin, …
  // if there is no such place. Throws Error: it is not known where lines or functions are here.
  timeline::Arrival step(Step step, bool back, int tid = 0);

 private:
  using Arrival = timeline::Arrival;
  using Taps = timeline::Taps;

  // A function that a thread is in.
  struct Frame {
    Address pc = 0;    // in the function
    uint64_t cfa = 0;  // rsp before its call; 0: not known
    std::optional<symbols::Function> function;
    std::vector<symbols::Program::InlineFrame> lines;  // what was inlined there, innermost first

    bool known() const { return function && cfa && !lines.empty() && lines.front().line; }
    bool is_same(const Frame& other) const {
      return cfa == other.cfa && function && other.function && function->entry == other.function->entry;
    }
  };
  std::vector<Frame> frames(int tid, size_t most);
  Frame here(int tid);
  bool is_system(const Frame& frame) const;
  bool counts(const Frame& frame, const std::vector<Frame>& stack) const;
  std::vector<Frame> frames_with_lines(int tid);
  static std::string entered(const Frame& frame);
  std::string condition(Address pc, uint64_t cfa);
  void stop_in_frame(Address pc, const std::string& condition, Taps& taps);
  void stop_at_lines(const Frame& frame, bool of_the_present, bool back, Taps& taps);
  Taps around(const std::vector<Frame>& frames, int tid, bool back);
  const std::vector<Address>& entries();

  Arrival over(int tid, bool back);
  Arrival into(int tid);
  Arrival into_back(int tid);
  Arrival out(int tid, bool back);
  Arrival out_back(int tid, const Frame& frame);
  Arrival to_line_start(int tid, const Frame& frame);
  bool is_first(int tid, const Frame& frame);
  Arrival quantum(bool back);

  Session& session_;
  bool only_own_;
  std::optional<std::vector<Address>> entries_;  // of the program's own functions
};

}  // namespace backstep::session
