// What a user says an event is: `call malloc if $arg0 > 100`, `write x in [1000,2000)`, `foo.c:12 then
// bar.c:7`.
//
// A specification is only read here; which places, addresses and moments of a recording it means is found out
// above (session/resolve.h), where symbols are. docs/events.md has the grammar, and `backstep events` prints
// it from the table here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/context.h"

namespace backstep::events {

enum class Kind : uint8_t {
  Place,    // in front of an instruction: a line, a function's first, an address
  Tick,     // the first moment of a tick
  Point,    // a control point
  Every,    // each multiple of a number of ticks
  Read,     // memory
  Write,    // … whatever is written
  Change,   // … written to, and different then
  Access,   // … read or written to
  Call,     // of a function, in front of its first instruction
  Return,   // in front of the instruction that leaves it
  Syscall,  // a system call
  Signal,   // in front of its delivery
  Thread,   // the call that starts one
  Fork,     // the call that makes a process
  Exec,     // the call that becomes another program
  Output,   // the call that writes a text to stdout or stderr
  Moment,   // one that has another name: a bookmark, 50%, a time
};

// One event that stands for itself.
struct Spec {
  Kind kind = Kind::Place;
  std::string text;  // as it was written, with its condition
  // Place: "foo.c:12", "0x401136", a function. Call, Return: a function. Data: an expression. Syscall,
  // Signal: a name, empty: any. Output: the text.
  std::string name;
  std::optional<uint64_t> size;  // of data, if it was said
  bool after = false;            // Syscall: behind the call
  Tick tick = 0;                 // Tick, Point; Every: the period
  Address pc = 0;                // Point
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

Event parse(const std::string& text);

// The simple events in it, in the order in which they are written.
std::vector<const Spec*> specs_of(const Event& event);

// For `backstep events`, documentation and completion.
struct KindHelp {
  const char* form;
  const char* meaning;
};
const std::vector<KindHelp>& grammar();

}  // namespace backstep::events
