// Where functions are left.
#pragma once
#include <vector>

#include "symbols/program.h"

namespace backstep::session {

struct Exit {
  uint64_t pc = 0;
  bool jump = false;  // to another function, instead of a call and a ret
};

// Its ret instructions, and jumps to other functions. Jumps through a register are not among them.
std::vector<Exit> exits_of(const symbols::Program& program, const symbols::Function& function);

}  // namespace backstep::session
