// Which sources of the recorded program include a header: debug regions in it are compiled as part of one.
#pragma once
#include <string>
#include <vector>

#include "symbols/program.h"

namespace backstep::probe {

// Their paths as they were when the program was built, by debug information. `header`: absolute; if no unit
// has it under that path (the tree may lie elsewhere now), those that have one of that name.
std::vector<std::string> includers_of(const symbols::Program& program, const std::string& header);

}  // namespace backstep::probe
