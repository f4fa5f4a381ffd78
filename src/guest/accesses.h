// Which memory an instruction is about to touch.
#pragma once
#include <vector>

#include "engine/context.h"

namespace backstep::guest {

struct Accessed {
  Address start = 0;
  uint64_t length = 0;
  bool read = false, write = false;
};

// All that is known of the instruction at rip, from the registers as they are.
struct Instruction {
  std::vector<Accessed> accesses;
  bool known = false;     // those are all of its accesses (not so for AVX-512's gathers and scatters, and if
                          // there is no instruction)
  bool locked = false;    // reads and writes as one
  bool repeated = false;  // a string instruction with a repeat prefix …
  uint64_t times = 0;     // … which its accesses are for
  bool masked = false;    // may write less than its operand
  bool backwards = false;
};
Instruction instruction_at_rip();

// Empty if it is not known (no instruction).
inline std::vector<Accessed> accesses_at_rip() {
  return instruction_at_rip().accesses;
}

}  // namespace backstep::guest
