// Which lines and functions of a program a run executed.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct Coverage {
  struct Function {
    std::string name;
    int line = 0;
    bool executed = false;
  };
  struct File {
    std::map<int, bool> lines;  // those that have code, and whether some of it was executed
    std::map<std::string, Function> functions;

    size_t executed_lines() const;
    size_t executed_functions() const;
  };
  std::map<std::string, File> files;  // by path, as the compiler was given it

  // What either has executed.
  void add(const Coverage& other);
  // Without what the other one has executed; what is not left has no code here.
  void subtract(const Coverage& other);
};

// `system`: with the libraries of the system, too, if there is debug information of them.
Coverage coverage(Session& session, const Stretch& stretch, bool system, const Watcher& watcher);

}  // namespace backstep::session
