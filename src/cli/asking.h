// What all commands that ask a recording have in common: which recording and process, which stretch of the
// run, a progress bar.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "cli/facts.h"
#include "cli/options.h"
#include "session/session.h"
#include "session/several.h"

namespace backstep::cli {

struct Asking {
  std::string dir, process, from, to;
  bool json = false;
  ReplayOptions replay;

  void add_options(CommandLine& line);
  // The last positional argument is DIR if it is a recording's name or folder; more than `most` others, which
  // may have been meant as one, are an error.
  void take_dir(std::vector<std::string>& arguments, size_t least, size_t most = SIZE_MAX);
  // Opens it; throws Error.
  std::unique_ptr<session::Session> open();
  // … if it is about several processes; null: about one.
  std::unique_ptr<session::Several> open_several();
  session::StretchOfEach stretch_of_each() const { return {from, to}; }
  session::Stretch stretch(const session::Session& session) const;
};

// "#2 cc1, pid 4711", and what belongs into a JSON object.
std::string process_title(const session::AskedProcess& process);
void add_process(Json& object, const session::AskedProcess& process);

// Says on stderr how often a condition could not be evaluated; `named`: and whose it is.
void tell_failures(const session::Count& count, bool named);

// Shown on stderr if that is a terminal and it takes long enough; gone with the object.
class ProgressBar {
 public:
  explicit ProgressBar(const char* what);
  ~ProgressBar();
  void show(double done);
  void clear();
  session::Watcher watcher();

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  double last_ = 0;
  double start_;
};

// False: nobody reads what we print any more.
bool put_line(const std::string& line);

}  // namespace backstep::cli
