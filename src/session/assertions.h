// Whether what a user asserts of a run holds in it. docs/query.md has the language and what each form means.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "events/assertion.h"
#include "session/session.h"

namespace backstep::session {

// The first moment at which an assertion does not hold.
struct Violation {
  ControlPoint at;
  int thread = 1;
  StackFrame place;
  std::string words;  // what is wrong: both sides, with their values
  nlohmann::ordered_json values = nlohmann::ordered_json::object();  // … by their expressions
};

struct Verdict {
  std::string assertion;
  size_t line = 1;          // of the file
  uint64_t checks = 0;      // how often there was something to look at
  uint64_t violations = 0;  // … and it did not hold
  uint64_t failures = 0;    // conditions of its events that could not be evaluated, and so were no matches
  std::optional<Violation> first;
  std::string unknown;  // not empty: it makes no sense in this program, a sentence

  bool holds() const { return violations == 0; }
};

struct Verdicts {
  std::vector<Verdict> list;  // of each assertion
  bool complete = true;       // false: somebody wanted to stop
};

// All of them in one sweep. Throws Error, unless `lenient`: what makes no sense here is `unknown` then.
Verdicts check(Session& session, const std::vector<events::Assertion>& assertions, const Stretch& stretch,
               const Watcher& watcher, bool lenient = false);

// What the comparisons of an expression compare: "a + 1" and "*p" of `a + 1 < *p && !done`, and "done".
std::vector<std::string> operands_of(const std::string& expression);

}  // namespace backstep::session
