// What a user says holds throughout a run: `never call abort`, `always n >= 0 at queue.c:40`, `only the
// holder of lock m writes x`. Only read here; session/assertions.h looks whether it is so. docs/query.md has
// the language.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "events/spec.h"

namespace backstep::events {

struct Assertion {
  enum class Form : uint8_t {
    Never,       // a
    AlwaysAt,    // expression, at each a
    Between,     // expression, from a to b
    Followed,    // each a is, by a b
    Preceded,    // … has one before
    OnlyHolder,  // of lock: writes expression
    AtMost,      // n of a
    Alternates,  // a with b
  };
  Form form = Form::Never;
  std::string text;
  size_t line = 1;  // where it stands in a file
  Event a, b;
  std::string expression, lock;
  uint64_t n = 0;                  // AtMost
  std::optional<uint64_t> within;  // Followed, Preceded: so many ticks
};

// One on each line or behind each `;`; what stands behind a # is for people. Throws Error: in which line, and
// a caret.
std::vector<Assertion> parse_assertions(const std::string& text, Forms forms);
Assertion parse_assertion(const std::string& text, Forms forms);

// For help.
const std::vector<KindHelp>& assertion_grammar();

}  // namespace backstep::events
