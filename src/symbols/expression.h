// Expressions over a program's variables, compiled to the bytecode that workers run at each match of an event
// (replay/bytecode.h). The language is C's, without side effects; docs/expressions.md describes it.
//
// What holds: a value is right or there is none. A variable that the optimiser keeps nowhere at that place is
// `<optimized out>`; memory that cannot be read makes the value unknown.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "replay/bytecode.h"
#include "symbols/program.h"
#include "symbols/types.h"

namespace backstep::symbols {

// What the event offers beyond what is at its place.
struct EventVariables {
  bool addr = false;        // $addr, $size: data events
  bool old_value = false;   // $old
  bool new_value = false;   // $new
  TypeRef value_type = {};  // of $old and $new; null: an unsigned integer
  bool retval = false;      // $retval: registers are as at the return of the function
  bool args = false;        // $arg0…: registers are as at the entry of the function
  uint64_t function = 0;    // an address in the function that they are of; 0: the place itself

  // Whose variables names mean, where functions were inlined at the place: those of the function so many
  // calls out of the innermost one. An inlined function may begin at the very instruction where the one
  // around it is entered, or where the line begins that calls it.
  unsigned outer = 0;
  static constexpr unsigned kNotInlined = ~0u;  // … of the one that was not inlined

  // Whose thread-local variables names mean: those of the thread with this FS base; none: of the thread at
  // hand.
  std::optional<uint64_t> fs_base = {};

  // Of a system call: $arg0 to $arg5, also by the names that the table has for them ($fd, $count). They are
  // in the call's registers, in front of it and, as the kernel keeps these, behind it.
  struct CallArgument {
    enum class Kind : uint8_t { Int, Unsigned, Long, Word, Pointer, Text /* address of a text */ };
    std::string name;  // empty: none
    Kind kind = Kind::Word;
  };
  std::vector<CallArgument> call_args = {};

  // Words of its own: names without $ that stand for a state word.
  struct Named {
    enum class Kind : uint8_t { Signed, Unsigned, Pointer, Text /* address of a text */ };
    std::string name;
    Kind kind = Kind::Unsigned;
    uint8_t state = replayer::kStateFirstFree;
  };
  std::vector<Named> named = {};
};

// An expression that makes no sense. what(): the sentence, the expression, and a caret under the column.
class ExpressionError : public Error {
 public:
  ExpressionError(const std::string& text, size_t column, const std::string& sentence);
  size_t column;  // of the text, from 0
  std::string sentence;
};

struct Compiled {
  replayer::CapturedExpression code;
  TypeRef type;                // of the value
  std::string text;            // the expression
  bool optimized_out = false;  // it has no value here, and no code
  std::string why;             // if so: a sentence
  bool shown_as_text = false;  // the captured bytes are text: char*, std::string
  bool of_thread = false;      // each thread has one of its own
};

// Compiles expressions about one program; remembers what it learnt of it, so one compiler should serve all
// expressions of a command. One thread at a time. The program must outlive it (but not what it compiled).
class Compiler {
 public:
  explicit Compiler(const Program& program);
  ~Compiler();
  Compiler(Compiler&&) noexcept;

  // `pc`: where it will be evaluated, before the instruction there; 0: nowhere in particular (only globals).
  // Of an outer frame: the address of the call, and registers as they are in that frame.
  Compiled compile(const std::string& text, uint64_t pc, const EventVariables& event = {});
  // Its value is 0: false. A variable that is optimised out is an error.
  std::vector<uint8_t> compile_condition(const std::string& text, uint64_t pc,
                                         const EventVariables& event = {});
  // Memory that an expression names, for data events: `x`, `p->count`, `*(int *)0x1000`.
  struct Place {
    std::vector<uint8_t> address;  // bytecode
    uint64_t size = 0;
    TypeRef type;
    bool of_thread = false;  // each thread has one of its own
  };
  Place compile_place(const std::string& text, uint64_t pc, const EventVariables& event = {});

  // Names of the variables that can be seen at a place: parameters and locals, the innermost scope first;
  // `outer`: as in EventVariables.
  struct Visible {
    std::string name;
    bool parameter = false;
  };
  std::vector<Visible> locals(uint64_t pc, unsigned outer = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Compiled compile(const Program& program, const std::string& text, uint64_t pc,
                 const EventVariables& event = {});
std::vector<uint8_t> compile_condition(const Program& program, const std::string& text, uint64_t pc,
                                       const EventVariables& event = {});

// How a captured value looks. `readable` and `bytes` as in replayer::Captured.
std::string format(const Compiled& compiled, const std::vector<uint8_t>& bytes, bool readable);
nlohmann::json to_json(const Compiled& compiled, const std::vector<uint8_t>& bytes, bool readable);

}  // namespace backstep::symbols
