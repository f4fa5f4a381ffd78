// Local variables by name alone, for whoever has to say that one was meant.
#pragma once
#include <optional>
#include <string>

#include "symbols/program.h"

namespace backstep::symbols {

struct LocalName {
  std::string function;  // the first one that has it
  std::string file;      // its last path component; empty: not known
  int line = 0;          // where it is declared
};

// In the program itself, not in its libraries.
std::optional<LocalName> find_local(const Program& program, const std::string& name);

}  // namespace backstep::symbols
