// Where functions are left.
#pragma once
#include <string>
#include <vector>

#include "symbols/program.h"

namespace backstep::session {

struct Exit {
  uint64_t pc = 0;
  bool jump = false;  // to another function, instead of a call and a ret
  // An expression that holds in front of the instruction when it leaves the function; empty: it always does.
  std::string only_if = {};
};

// Its ret instructions, and jumps that lead or may lead to other functions.
std::vector<Exit> exits_of(const symbols::Program& program, const symbols::Function& function);

}  // namespace backstep::session
