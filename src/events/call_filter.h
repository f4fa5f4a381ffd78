// The language in which one says which system calls are meant:
//
//     write                                   these calls, by name; several with commas, '*' and '?' as in
//     openat,read,*stat                       the shell, '!' in front: not these
//     %file,!%net                             classes, as strace has them
//     write if ret < 0                        … of which a condition is true
//     if errno == ENOENT && path ~ "/etc/*"   a condition alone: any call
//
// Conditions are C expressions over what is known of a call: `ret`, `errno`, `fd`, `path`, `name`, `nr`,
// `tick`, `event`, `thread`, `pid`, `process`, the names that the system-call table gives the arguments
// (`count`, `flags`, `mode` …; `args.pid` if one of these words is hidden by another meaning) and
// `arg0` … `arg5`. Numbers are as in C, constants (`O_CREAT`, `SIGTERM`, `ENOENT`) those that calls are
// printed with. Texts stand in quotes; `~` is true if the left side contains the text or, if that has `*`,
// `?` or `[`, if it matches it as a whole; `!~` is the opposite.
//
// A call may have several paths or descriptors: `path ~ …`, `fd == …` are true if one of them is so, and
// their opposites if none is. What a call has not got (the path of a `read`), or the log does not know (what
// was written behind the first 32 bytes), is unknown, and so is what depends on it: such a call is not meant.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "events/recorded_call.h"

namespace backstep::events {

// What is wrong with a filter, and where. what() has the sentence and the text with a mark below the place.
class FilterError : public Error {
 public:
  FilterError(const std::string& text, size_t column, const std::string& sentence);
  size_t column;         // bytes from the start of the text
  std::string sentence;  // alone
};

struct Condition;

class CallFilter {
 public:
  CallFilter();  // every call
  // Throws FilterError.
  explicit CallFilter(const std::string& text);

  // By the name alone: no need to look closer at a call that this is false for.
  bool selects(uint16_t nr) const { return calls_[nr]; }
  bool matches(const Call& call) const;

 private:
  std::vector<bool> calls_;                     // by number
  std::shared_ptr<const Condition> condition_;  // null: none
};

// Names of the classes of calls ("file"), and which calls each of them has.
std::vector<std::string> call_classes();
bool is_in_class(const std::string& name, uint16_t nr);

// Does the text match the whole pattern, as the shell's `*`, `?`, `[a-z]`, `[!x]` and `\` do?
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace backstep::events
