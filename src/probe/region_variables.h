// Variables that a debug region declares for later regions of the same call of a function.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "probe/tokens.h"

namespace backstep::probe {

struct DeclaredVariable {
  std::string name;
  // A declaration of that name and type for code that is never run, which later regions see.
  std::string outline;
  // It is where it was declared (a static variable, a reference); others are gone with the region, so their
  // values are kept.
  bool stays = false;
  bool deduced = false;  // from what it begins with
};

// Those that are declared in the outermost block of a region. `tokens` are of `text`.
std::vector<DeclaredVariable> declared_variables(const std::string& text, const std::vector<Token>& tokens,
                                                 bool c);

}  // namespace backstep::probe
