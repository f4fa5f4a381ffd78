// A program that runs beside us: a job, an engine that runs jobs, a client of a database.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"

namespace backstep {

struct ChildOptions {
  std::string folder;       // that it runs in; empty: ours
  int input = -1;           // its stdin; -1: nothing to read
  int output = -1;          // its stdout; -1: that of `errors`
  int errors = -1;          // its stderr; -1: goes nowhere
  bool own_session = true;  // Ctrl-C at the terminal is for us, and what becomes of it is our decision
  std::string advice;       // for the error if there is no such program: "… needs X (apt-get install X)"
};

// Ended with the object, by SIGTERM and then SIGKILL, and by the kernel if we are killed.
class Child {
 public:
  Child() = default;
  // Throws Error: there is no such program.
  Child(const std::vector<std::string>& command, const ChildOptions& options);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept;
  ~Child() { stop(); }

  explicit operator bool() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // As wait() has it; nullopt: it still runs. Once it has ended there is no child any more.
  std::optional<int> ended();
  int wait();
  // With all that it has started in its session.
  void stop();

 private:
  pid_t pid_ = -1;
};

// "exit status 1", "killed by signal 9"
std::string end_text(int wait_status);

// Runs it to its end; what it wrote. Both go to the same text if `errors` is null.
struct Finished {
  int status = 0;  // as wait() has it
  std::string output, errors;
  bool ok() const { return status == 0; }
};
// Throws Error: there is no such program.
Finished run_to_end(const std::vector<std::string>& command, const std::string& input, ChildOptions options);

}  // namespace backstep
