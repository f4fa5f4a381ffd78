// How long operands are, as prefixes say it. For the tables of this folder.
#pragma once
#include "isa/decode.h"

namespace backstep::isa {

inline uint8_t sized(const Insn& in) {  // 2, 4 or 8 bytes
  return in.rex & 8 ? 8 : in.opsize ? 2 : 4;
}

inline bool vex_wide(const Insn& in, const uint8_t* code) {  // VEX.W, which only the long form has
  return in.opcode_at >= 3 && code[in.opcode_at - 3] == 0xc4 && code[in.opcode_at - 1] & 0x80;
}

inline uint8_t word_size(const Insn& in, const uint8_t* code) {  // 4 or 8 bytes (REX.W, VEX.W)
  return (in.encoding == 1 ? vex_wide(in, code) : in.rex & 8) ? 8 : 4;
}

inline uint8_t vector_size(const Insn& in, const uint8_t* code) {
  return in.encoding == 1 && code[in.opcode_at - 1] & 4 ? 32 : 16;
}

}  // namespace backstep::isa
