// Memory operands, taken apart for code that wants another one like it.
#pragma once
#include "engine/context.h"
#include "isa/decode.h"

namespace backstep::engine {

// An address as instructions have it: [base + index*scale + disp].
struct Operand {
  int base = -1, index = -1;
  unsigned scale = 0;  // as SIB has it
  int64_t disp = 0;
};

inline Operand operand_of(const isa::Insn& in, const uint8_t* code, Address pc) {
  Operand op;
  const unsigned mod = in.modrm >> 6, rm = in.modrm & 7;
  unsigned x = in.rex >> 1 & 1, b = in.rex & 1;
  if (in.encoding == 1) {
    const bool full = in.opcode_at >= 3 && code[in.opcode_at - 3] == 0xc4;
    x = full ? ~code[in.opcode_at - 2] >> 6 & 1 : 0;
    b = full ? ~code[in.opcode_at - 2] >> 5 & 1 : 0;
  }
  const uint8_t* at = code + in.modrm_at + 1;
  unsigned disp = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  if (rm == 4) {
    const uint8_t sib = *at++;
    const unsigned index = (sib >> 3 & 7) | x << 3;
    if (index != RSP) op.index = static_cast<int>(index), op.scale = sib >> 6;
    if (mod == 0 && (sib & 7) == 5) {
      disp = 4;
    } else {
      op.base = static_cast<int>((sib & 7) | b << 3);
    }
  } else if (mod == 0 && rm == 5) {
    disp = 4;
    op.disp = static_cast<int64_t>(pc + in.length);
  } else {
    op.base = static_cast<int>(rm | b << 3);
  }
  if (disp == 1) op.disp += static_cast<int8_t>(*at);
  if (disp == 4) {
    int32_t value;
    __builtin_memcpy(&value, at, 4);
    op.disp += value;
  }
  return op;
}

}  // namespace backstep::engine
