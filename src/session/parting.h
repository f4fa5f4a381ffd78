// Where two recordings of the same program part.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "session/session.h"

namespace backstep::session {

// One side, at one moment.
struct PartingSide {
  ControlPoint at;
  int thread = 1;
  std::string function, file;
  int line = 0;
  std::string what;  // the instruction, or the event
};

// Something that came from outside and is not the same in both.
struct PartingInput {
  uint64_t event[2] = {};  // number in each log
  ControlPoint at[2];
  std::string text[2];  // empty: there is none
};

struct Parting {
  bool parted = false;
  // If so: the last thing that both did, and what each did then.
  std::optional<PartingSide> last;
  std::optional<PartingSide> next[2];  // none: it ended there
  std::string sentence;                // what made the difference, as far as it can be told
  struct Operand {
    std::string name, value[2];
    std::vector<std::string> from[2];  // what values that differ were made of
  };
  std::vector<Operand> operands;        // of the comparison that decided
  std::optional<PartingSide> decided;   // … which is there
  std::optional<PartingInput> input;    // the first one that differs, before the parting
  std::optional<PartingInput> nearest;  // … and the last one, if that is another
  uint64_t inputs = 0;                  // how many differ up to there
  std::vector<std::string> start;       // how their beginnings differ: arguments, environment
  Tick exact_from = 0;                  // before this tick only one position in so many was compared
  Tick period = 1;
};

// Throws Error: they are not of the same program. `exact`: every tick is compared, however many there are.
Parting find_parting(Session& a, Session& b, bool exact, const Watcher& watcher);

nlohmann::ordered_json parting_json(const Parting& parting);
std::vector<std::string> parting_text(const Parting& parting);

}  // namespace backstep::session
