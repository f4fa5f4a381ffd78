// Errors are sentences for a person: what was tried, on what, why it failed, what to do about it.
// They travel as C++ exceptions of this one type through host code (never through the hot world or a guest
// frame) and are printed once, by the command line, which also turns `exit_code` into the exit status.
#pragma once
#include <stdexcept>
#include <string>

namespace backstep {

// Exit statuses that scripts rely on.
enum ExitCode : int {
  kExitFailure = 1,          // anything else that went wrong on our side
  kExitUsage = 2,            // bad command line
  kExitDivergence = 3,       // replay differs from the recording, or the recording is damaged
  kExitNotExecutable = 126,  // as the shell says it
  kExitNotFound = 127,
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& sentence, int exit_code = kExitFailure)
      : std::runtime_error(sentence), exit_code(exit_code) {}
  int exit_code;
};

// Says it on stderr; the exit status that goes with it.
int tell(const std::exception& e);

// "No such file or directory (ENOENT)" for an errno value.
std::string errno_text(int err);

}  // namespace backstep
