// Where an operand of a decoded instruction is in memory, from the registers in front of the instruction.
#pragma once
#include <Zydis/Zydis.h>

#include <cstdint>

#include "engine/context.h"

namespace backstep::guest {

struct OperandState {
  const uint64_t* gpr;  // hardware numbering
  Address pc = 0;       // of the instruction
  uint64_t rflags = 0, fs_base = 0, gs_base = 0;
};

struct OperandMemory {
  Address start = 0;
  uint64_t length = 0;  // all repetitions of a string instruction; 0: nothing is touched
};

// Of operands with a vector of indexes (gathers): without those.
OperandMemory operand_memory(const ZydisDecodedInstruction& in, const ZydisDecodedOperand* operands,
                             const ZydisDecodedOperand& operand, const OperandState& state);

inline bool is_repeated(const ZydisDecodedInstruction& in) {
  return in.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

}  // namespace backstep::guest
