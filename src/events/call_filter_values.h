// What the words of a condition stand for in one call (call_filter.h has the language).
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "events/recorded_call.h"

namespace backstep::events {

// Wide enough for signed and unsigned 64-bit numbers alike, so that comparing them means what it says.
__extension__ typedef __int128 Number;

struct Text {
  std::string bytes;
  bool cut = false;  // the log has only the beginning
};

enum class Fact { Ret, Errno, Fd, Path, Name, Nr, Tick, Event, Thread, Pid, Process };

// A word: a fact about the call as a whole, an argument by its place, or one by its name.
struct Variable {
  enum Kind { OfCall, ByPlace, ByName } kind = OfCall;
  Fact fact{};
  int place = 0;
  std::string name;
};

// All values that it has, none if it has none in this call.
std::vector<Number> numbers_of(const Variable& variable, const Call& call);
std::vector<Text> texts_of(const Variable& variable, const Call& call);

std::optional<Fact> find_fact(const std::string& word);
std::vector<std::string> fact_names();
// A flag, command, error or signal by its name.
std::optional<Number> find_constant(const std::string& word);
std::vector<std::string> constant_names();
// The names that this call's arguments have, whichever command or flags it is made with.
std::set<std::string> argument_names(uint16_t nr);
// Is an argument of that name, where this call has one, a text?
bool is_text_argument(uint16_t nr, const std::string& name);

}  // namespace backstep::events
