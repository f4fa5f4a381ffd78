// What a user says an event is: `call malloc if $arg0 > 100`, `write x in [1000,2000)`, `foo.c:12 then
// bar.c:7`.
//
// A specification is only read here; which places, addresses and moments of a recording it means is found out
// above (session/resolve.h), where symbols are. docs/events.md has the grammar, and `backstep events` prints
// it from the kinds' own words.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/context.h"

namespace backstep::events {

class Reader;
struct Spec;

// For `backstep events`, documentation and completion.
struct KindHelp {
  const char* form;
  const char* meaning;
};

// How a kind of event is written. Which kinds there are, and what each looks for, is said where recordings
// are asked (session/kind.h): here they are only read.
struct Form {
  const char* word;  // that it begins with; one that is no word, such as @, sticks to the rest; empty: the
                     // form of what begins with none
  void (*read)(Reader&, Spec&);  // what stands behind that
  std::initializer_list<KindHelp> help = {};
};
using Forms = std::span<const Form* const>;

// One event that stands for itself.
struct Spec {
  const Form* kind = nullptr;
  std::string text;  // as it was written, with its condition
  // What these mean is each kind's own business.
  std::string name;              // of a place, a function, data, a system call, a moment; a text
  std::optional<uint64_t> size;  // of data, if it was said
  bool after = false;            // behind the call
  Tick tick = 0;                 // a moment, a period
  Address pc = 0;                // … an address in that tick; 0: its beginning
  Tick from = 0, to = ~0ull;     // the era that it is restricted to
  std::string condition;         // empty: none
  size_t condition_at = 0;       // its column in what was parsed
};

// An event that may be made of others.
struct Event {
  enum class Op : uint8_t {
    One,      // a Spec
    Then,     // the first match of b behind each match of a
    Within,   // … at most n ticks behind it
    Nth,      // every n-th match of a
    Between,  // matches of a between one of b and the next one of c
  };
  Op op = Op::One;
  Spec spec;                 // One
  std::vector<Event> parts;  // a, b, c
  uint64_t n = 0;
  std::string text;
};

// What cannot be understood: a sentence, the text, and a caret under the column.
class SpecError : public Error {
 public:
  SpecError(const std::string& text, size_t column, const std::string& sentence);
  size_t column;
};

// `forms`: of all kinds; one of them has no word.
Event parse(const std::string& text, Forms forms);

// The simple events in it, in the order in which they are written.
std::vector<const Spec*> specs_of(const Event& event);

// What each of them looks like, and what can be made of them.
std::vector<KindHelp> grammar(Forms forms);

}  // namespace backstep::events
