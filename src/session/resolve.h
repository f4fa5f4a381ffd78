// From what a user says an event is to what workers look out for.
#pragma once
#include <string>
#include <vector>

#include "events/spec.h"
#include "symbols/expression.h"
#include "timeline/worker.h"

namespace backstep::session {

class Session;

// One tap of a simple event, and what can be asked where it matches.
struct ResolvedTap {
  timeline::Tap tap;
  size_t spec = 0;                 // which of the event's simple ones
  Address pc = 0;                  // where expressions are evaluated; 0: nowhere in particular
  symbols::EventVariables offers;  // … and what the event has
  std::string only_if = {};        // an expression that has to hold besides

  std::string only_if_and(const std::string& condition) const;  // either may be empty
};

struct Resolved {
  events::Event event;
  std::vector<ResolvedTap> taps;
  std::vector<std::string> notes;  // sentences: what was meant, where it was not quite clear
};

// Does an expression name more than what the event itself offers ($arg0, $tick, …)?
bool names_variables(const std::string& expression);

// The functions of a name, at least one; the code of a line, or of the next one that has some, in one file.
// Throw Error: what there is instead. `only_entries`: no more than the entry is asked of them.
std::vector<symbols::Function> functions_named(const symbols::Program& program, const std::string& name,
                                               bool only_entries = false);
std::vector<symbols::LineMatch> lines_named(const symbols::Program& program, const std::string& file,
                                            int line);

// `uses_variables`: what is asked at matches names variables of the program, which are where they should be
// only behind the first instructions of a function. Throws Error.
Resolved resolve(Session& session, const std::string& spec, bool uses_variables);

}  // namespace backstep::session
