// The processes of a run as they are asked: a session with each, opened when it is first needed, and what
// people want to know of a place.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cut.h"
#include "session/session.h"

namespace backstep::cluster {

// Where in the program a process is.
struct SourcePlace {
  std::string function,
      file;  // the innermost frame that is not in a library of the system's; empty: not known
  int line = 0;
  std::string inner;         // the function that it is really in, if that is another one
  std::string text() const;  // "handle at server.c:120, in sendto"; may be empty
};

class Sessions {
 public:
  Sessions(const History& history, const ReplayOptions& options) : history_(history), options_(options) {}

  // Throws Error: nothing of it can be replayed.
  session::Session& of(ProcessId process);
  // Takes the session of the process there. Throws Error: it was never there.
  session::Session& at(ProcessId process, const Place& place);
  SourcePlace source(ProcessId process, const Place& place);

  // The `count`-th time that something happens in a process, from the end if `count` is negative. `spec`: an
  // event (docs/events.md), a function's name, or a moment. Throws Error: there is no such time.
  Breakpoint find(ProcessId process, const std::string& spec, int64_t count, const session::Watcher& watcher);

 private:
  const History& history_;
  ReplayOptions options_;
  std::map<ProcessId, std::unique_ptr<session::Session>> sessions_;
};

}  // namespace backstep::cluster
