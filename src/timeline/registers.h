// All registers of one guest thread, as a value.
#pragma once
#include <cstdint>

#include "engine/context.h"

namespace backstep::timeline {

struct Registers {
  uint64_t gpr[16] = {};  // hardware numbering (engine/context.h)
  uint64_t rip = 0, rflags = 0, fs_base = 0, gs_base = 0;
  uint64_t hi16_offset = 0;              // of ZMM16-31 in `xsave`
  unsigned char xsave[kXsaveSize] = {};  // standard format; a component whose XSTATE_BV bit is 0 is initial
};

}  // namespace backstep::timeline
