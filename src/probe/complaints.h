// What the compiler says of debug code, put so that its author can use it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "probe/toolchain.h"

namespace backstep::probe {

// Errors with their notes, each with its line and a caret; `sources`: lines of files that are the user's, by
// the name that the compiler knows them by. `summary` comes first.
std::string complaints_text(const Toolchain::Outcome& outcome,
                            const std::map<std::string, std::vector<std::string>>& sources,
                            const std::string& summary);

}  // namespace backstep::probe
