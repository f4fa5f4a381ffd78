// Which memory an instruction is about to touch.
#pragma once
#include <vector>

#include "engine/context.h"

namespace backstep::replayer {

struct Accessed {
  Address start = 0;
  uint64_t length = 0;
  bool read = false, write = false;
};

// Of the instruction at rip, from the registers as they are. Empty if it is not known (no instruction).
std::vector<Accessed> accesses_at_rip();

}  // namespace backstep::replayer
