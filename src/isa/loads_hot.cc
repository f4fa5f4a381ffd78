// The reading half of the table: how many bytes of its memory operand an instruction reads, by opcode map, as
// stores_hot.cc tells what it writes. It lists what is *known*; anything else with a memory operand counts as
// a load of a size that is not known, and is somebody else's to find out (guest/accesses.h).
//
// tests/unit/stores_test.cc compares both halves with Zydis on real programs and on random bytes.
#include "isa/sizes.h"
#include "isa/stores.h"

namespace backstep::isa {
namespace {

constexpr uint8_t kNothing = 0;                                   // reads nothing
constexpr uint8_t kOperandSize = 0xff;                            // 2, 4 or 8 bytes
constexpr uint8_t kVector = 0xfe;                                 // a whole vector register
constexpr uint8_t kHalf = 0xfd, kQuarter = 0xfc, kEighth = 0xfb;  // … a part of one
constexpr uint8_t kFourOrEight = 0xfa;                            // REX.W, VEX.W
constexpr uint8_t kNotKnown = 0xf9;

// fld, fild, fadd and their relatives.
uint8_t read_by_x87(const Insn& in) {
  const unsigned reg = in.modrm >> 3 & 7;
  switch (in.opcode) {
    case 0xd8:
    case 0xda:
      return 4;
    case 0xd9:
      return reg == 0 ? 4 : reg == 5 ? 2 : reg == 2 || reg == 3 || reg == 7 ? kNothing : kNotKnown;
    case 0xdb:
      return reg == 0 ? 4 : reg == 5 ? 10 : reg < 4 || reg == 7 ? kNothing : kNotKnown;
    case 0xdc:
      return 8;
    case 0xdd:
      return reg == 0 ? 8 : reg < 4 || reg == 7 ? kNothing : kNotKnown;
    case 0xde:
      return 2;
    default:
      return reg == 0 ? 2 : reg == 4 ? 10 : reg == 5 ? 8 : kNothing;
  }
}

uint8_t read_by_one_byte(const Insn& in) {
  const unsigned reg = in.modrm >> 3 & 7;
  const uint8_t op = in.opcode;
  const uint8_t width = op & 1 ? kOperandSize : 1;
  if (op < 0x40) return (op & 7) < 4 ? width : kNotKnown;
  if (op >= 0xd8 && op <= 0xdf) return read_by_x87(in);
  switch (op) {
    case 0x63:  // movsxd
      return in.rex & 8 || !in.opsize ? 4 : kNotKnown;
    case 0x69:
    case 0x6b:
    case 0x83:
      return kOperandSize;
    case 0x80:
    case 0x81:
    case 0x84:
    case 0x85:
    case 0x86:
    case 0x87:
    case 0x8a:
    case 0x8b:
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xf6:
    case 0xf7:
      return width;
    case 0x88:
    case 0x89:
    case 0x8c:
    case 0x8d:
      return kNothing;
    case 0x8e:
      return 2;
    case 0xc6:
    case 0xc7:
      return reg == 0 ? kNothing : kNotKnown;
    case 0xfe:
      return reg < 2 ? 1 : kNotKnown;
    case 0xff:  // inc, dec; call, jmp, push
      return reg < 2 ? kOperandSize : (reg == 2 || reg == 4 || reg == 6) && !in.opsize ? 8 : kNotKnown;
    default:
      return kNotKnown;
  }
}

// Map 0F: vector instructions, legacy and VEX. kNotKnown: perhaps it is none.
uint8_t read_by_vector(const Insn& in, bool vex) {
  const uint8_t op = in.opcode;
  const uint8_t scalar = in.rep ? 4 : in.repne ? 8 : kVector;
  const bool wide = in.opsize || vex;  // no MMX
  const bool plain = !in.rep && !in.repne;
  switch (op) {
    case 0x10:
    case 0x51:
    case 0x58:
    case 0x59:
    case 0x5c:
    case 0x5d:
    case 0x5e:
    case 0x5f:
    case 0xc2:
      return scalar;
    case 0x11:
    case 0x13:
    case 0x17:
    case 0x29:
    case 0x2b:
      return kNothing;
    case 0x12:
      return in.rep ? kVector : in.repne && vex ? kNotKnown : 8;
    case 0x16:
      return in.repne ? kNotKnown : in.rep ? kVector : 8;
    case 0x14:
    case 0x15:
    case 0x28:
    case 0x54:
    case 0x55:
    case 0x56:
    case 0x57:
    case 0xc6:
      return plain ? kVector : kNotKnown;
    case 0x2a:
      return plain ? kNotKnown : kFourOrEight;
    case 0x2c:
    case 0x2d:
      return plain ? kNotKnown : scalar;
    case 0x2e:
    case 0x2f:
      return !plain ? kNotKnown : in.opsize ? 8 : 4;
    case 0x52:
    case 0x53:
      return in.repne || in.opsize ? kNotKnown : in.rep ? 4 : kVector;
    case 0x5a:
      return in.rep ? 4 : in.repne ? 8 : in.opsize ? kVector : kHalf;
    case 0x5b:
      return in.repne ? kNotKnown : kVector;
    case 0x6e:
      return plain && wide ? kFourOrEight : kNotKnown;
    case 0x6f:
      return in.rep || (in.opsize && plain) ? kVector : kNotKnown;
    case 0x70:
      return in.opsize || in.rep || in.repne ? kVector : kNotKnown;
    case 0x7c:
    case 0x7d:
    case 0xd0:
      return in.opsize || in.repne ? kVector : kNotKnown;
    case 0x7e:
      return in.rep ? 8 : plain ? kNothing : kNotKnown;
    case 0x7f:
    case 0xd6:
    case 0xe7:
      return plain || in.rep ? kNothing : kNotKnown;
    case 0xc4:
      return plain && wide ? 2 : kNotKnown;
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xe1:
    case 0xe2:
    case 0xf1:
    case 0xf2:
    case 0xf3:  // the counts of shifts
      return in.opsize && plain ? 16 : kNotKnown;
    case 0xe6:
      return in.rep ? kHalf : in.repne || in.opsize ? kVector : kNotKnown;
    case 0xf0:
      return in.repne ? kVector : kNotKnown;
    default:
      break;
  }
  const bool packed = (op >= 0x60 && op <= 0x6d) || (op >= 0x74 && op <= 0x76) ||
                      (op >= 0xd4 && op <= 0xef && op != 0xd6 && op != 0xd7) ||
                      (op >= 0xf4 && op <= 0xfe && op != 0xf7);
  return packed && in.opsize && plain ? kVector : kNotKnown;
}

uint8_t read_by_two_byte(const Insn& in, bool vex) {
  const unsigned reg = in.modrm >> 3 & 7;
  const uint8_t op = in.opcode;
  if (op == 0xae) {  // ldmxcsr, stmxcsr
    const bool plain = !in.rep && !in.repne && !in.opsize;
    return plain && reg == 2 ? 4 : plain && reg == 3 ? kNothing : kNotKnown;
  }
  const uint8_t vector = read_by_vector(in, vex);
  if (vector != kNotKnown || vex) return vector;
  if (op >= 0x40 && op <= 0x4f) return kOperandSize;  // cmov
  if (op >= 0x90 && op <= 0x9f) return kNothing;      // setcc
  switch (op) {
    case 0x0d:
    case 0x18:
    case 0x1f:
    case 0xc3:
      return kNothing;
    case 0xa4:
    case 0xa5:
    case 0xac:
    case 0xad:
    case 0xaf:
      return kOperandSize;
    case 0xb8:
      return in.rep ? kOperandSize : kNotKnown;
    case 0xbc:
    case 0xbd:
      return in.repne ? kNotKnown : kOperandSize;
    case 0xb6:
    case 0xbe:
    case 0xb0:
    case 0xc0:
      return 1;
    case 0xb7:
    case 0xbf:
      return 2;
    case 0xb1:
    case 0xc1:
      return kOperandSize;
    case 0xba:
      return reg >= 4 ? kOperandSize : kNotKnown;
    case 0xc7:
      return reg == 1 && !in.rep && !in.repne && !in.opsize ? (in.rex & 8 ? 16 : 8) : kNotKnown;
    default:
      return kNotKnown;
  }
}

// Map 0F38.
uint8_t read_by_third_map(const Insn& in, bool vex) {
  const uint8_t op = in.opcode;
  if (!vex && op == 0xf0) return in.rep || in.repne ? kNotKnown : kOperandSize;  // movbe
  if (!vex && op == 0xf1) return in.rep || in.repne ? kNotKnown : kNothing;
  if (vex && op >= 0xf2 && op <= 0xf7) return kFourOrEight;  // andn, blsr, bzhi, pext, mulx, sarx …
  if (!in.opsize || in.rep || in.repne) return kNotKnown;
  switch (op) {
    case 0x20:
    case 0x23:
    case 0x25:
    case 0x30:
    case 0x33:
    case 0x35:
      return kHalf;
    case 0x21:
    case 0x24:
    case 0x31:
    case 0x34:
      return kQuarter;
    case 0x22:
    case 0x32:
      return kEighth;
    case 0x41:
      return 16;
    case 0x10:
    case 0x14:
    case 0x15:
      return vex ? kNotKnown : kVector;
    case 0x17:
      return kVector;
    default:
      break;
  }
  if (op <= 0x0b || (op >= 0x1c && op <= 0x1e) || (op >= 0x28 && op <= 0x2b) || (op >= 0x37 && op <= 0x40) ||
      (op >= 0xdc && op <= 0xdf))
    return kVector;
  if (!vex) return kNotKnown;
  switch (op) {
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f:
    case 0x16:
    case 0x36:
    case 0x45:
    case 0x46:
    case 0x47:
      return kVector;
    case 0x13:
      return kHalf;
    case 0x18:
    case 0x58:
      return 4;
    case 0x19:
    case 0x59:
      return 8;
    case 0x1a:
    case 0x5a:
      return 16;
    case 0x78:
      return 1;
    case 0x79:
      return 2;
    default:
      break;
  }
  const unsigned low = op & 15, high = op >> 4;  // multiply and add
  if (high < 9 || high > 11 || low < 6) return kNotKnown;
  return low >= 8 && low & 1 ? kFourOrEight : kVector;
}

// Map 0F3A.
uint8_t read_by_fourth_map(const Insn& in, bool vex) {
  const uint8_t op = in.opcode;
  if (vex && op == 0xf0) return kFourOrEight;  // rorx
  if (!in.opsize || in.rep || in.repne) return kNotKnown;
  switch (op) {
    case 0x08:
    case 0x09:
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f:
    case 0x40:
    case 0x42:
    case 0x44:
      return kVector;
    case 0x41:
    case 0x60:
    case 0x61:
    case 0x62:
    case 0x63:
      return 16;
    case 0x0a:
    case 0x21:
      return 4;
    case 0x0b:
      return 8;
    case 0x14:
    case 0x15:
    case 0x16:
    case 0x17:
      return kNothing;
    case 0x20:
      return 1;
    case 0x22:
      return kFourOrEight;
    default:
      break;
  }
  if (!vex) return kNotKnown;
  switch (op) {
    case 0x00:
    case 0x01:
    case 0x02:
    case 0x04:
    case 0x05:
    case 0x06:
    case 0x46:
    case 0x4a:
    case 0x4b:
    case 0x4c:
      return kVector;
    case 0x18:
    case 0x38:
      return 16;
    case 0x19:
    case 0x39:
      return kNothing;
    default:
      return kNotKnown;
  }
}

bool reads_without_operand(const Insn& in) {  // at addresses that only registers tell
  const uint8_t op = in.opcode;
  if (in.encoding != 0 || in.map != 0) return false;
  return (op >= 0xa4 && op <= 0xa7) || (op >= 0xac && op <= 0xaf) || op == 0x6e || op == 0x6f ||  // strings
         op == 0xa0 || op == 0xa1 || op == 0xd7 || op == 0xc8 || op == 0xca || op == 0xcb || op == 0xcf;
}

bool pops(const Insn& in) {
  if (in.encoding != 0) return false;
  if (in.map == 1) return in.opcode == 0xa1 || in.opcode == 0xa9;
  return in.map == 0 && ((in.opcode >= 0x58 && in.opcode <= 0x5f) || in.opcode == 0x9d);
}

struct Extensions {  // bits that prefixes add to the numbers of registers
  unsigned r, b, vvvv;
};
Extensions extensions_of(const Insn& in, const uint8_t* code) {
  if (in.encoding == 0) return {in.rex >> 2 & 1u, in.rex & 1u, 16};
  const uint8_t last = code[in.opcode_at - 1];
  const bool full = in.opcode_at >= 3 && code[in.opcode_at - 3] == 0xc4;
  if (!full) return {~last >> 7 & 1u, 0, ~last >> 3 & 15u};
  const uint8_t first = code[in.opcode_at - 2];
  return {~first >> 7 & 1u, ~first >> 5 & 1u, ~last >> 3 & 15u};
}

constexpr uint32_t kA = 1, kC = 2, kD = 4, kSp = 16, kBp = 32;

// Registers that the opcode stands for by itself; kAllRegisters: not known.
uint32_t implied_by_one_byte(const Insn& in) {
  const uint8_t op = in.opcode;
  const unsigned reg = in.modrm >> 3 & 7;
  const uint32_t named = 1u << ((op & 7) | (in.rex & 1) << 3);
  if (op < 0x40) return (op & 7) < 4 ? 0 : (op & 7) < 6 ? kA : kAllRegisters;
  if (op >= 0x50 && op <= 0x5f) return named | kSp;
  if (op >= 0x70 && op <= 0x7f) return 0;
  if (op >= 0x90 && op <= 0x97) return named | kA;
  if (op >= 0xb0 && op <= 0xbf) return op < 0xb8 && !in.rex ? named | named >> 4 : named;
  if (op >= 0xd8 && op <= 0xdf) return op == 0xdf ? kA : 0;
  switch (op) {
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0x80:
    case 0x81:
    case 0x83:
    case 0x84:
    case 0x85:
    case 0x86:
    case 0x87:
    case 0x88:
    case 0x89:
    case 0x8a:
    case 0x8b:
    case 0x8d:
    case 0x9b:
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xe9:
    case 0xeb:
    case 0xf5:
    case 0xf8:
    case 0xf9:
    case 0xfc:
    case 0xfd:
    case 0xfe:
      return 0;
    case 0xc6:
    case 0xc7:
      return reg == 0 ? 0 : kAllRegisters;
    case 0x68:
    case 0x6a:
    case 0x9c:
    case 0x9d:
    case 0xc2:
    case 0xc3:
    case 0xe8:
      return kSp;
    case 0xc9:
      return kSp | kBp;
    case 0x98:
    case 0x9e:
    case 0x9f:
    case 0xa8:
    case 0xa9:
      return kA;
    case 0x99:
      return kA | kD;
    case 0xd2:
    case 0xd3:
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
      return kC;
    case 0xf6:
    case 0xf7:
      return reg >= 4 ? kA | kD : 0;
    case 0xff:
      return reg == 2 || reg == 6 ? kSp : reg < 2 || reg == 4 ? 0 : kAllRegisters;
    default:
      return kAllRegisters;
  }
}

uint32_t implied_by_two_byte(const Insn& in) {
  const uint8_t op = in.opcode;
  const unsigned reg = in.modrm >> 3 & 7;
  const uint32_t named = 1u << ((op & 7) | (in.rex & 1) << 3);
  if (op >= 0xc8 && op <= 0xcf) return named;
  if ((op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) || (op >= 0x40 && op <= 0x77) ||
      (op >= 0x7c && op <= 0x9f) || op == 0xc2 || (op >= 0xc3 && op <= 0xc6) ||
      (op >= 0xd0 && op <= 0xfe && op != 0xf7))
    return 0;
  switch (op) {
    case 0x0d:
    case 0x18:
    case 0x1e:
    case 0x1f:
    case 0xa3:
    case 0xa4:
    case 0xab:
    case 0xac:
    case 0xaf:
    case 0xb3:
    case 0xb6:
    case 0xb7:
    case 0xb8:
    case 0xba:
    case 0xbb:
    case 0xbc:
    case 0xbd:
    case 0xbe:
    case 0xbf:
    case 0xc0:
    case 0xc1:
      return 0;
    case 0xa5:
    case 0xad:
      return kC;
    case 0xb0:
    case 0xb1:
      return kA;
    case 0xae:
      if (in.modrm >> 6 == 3) return reg == 6 && (in.opsize || in.repne) ? kA | kD : 0;  // umwait, tpause
      return reg == 2 || reg == 3 || reg == 7 ? 0 : kAllRegisters;
    default:
      return kAllRegisters;
  }
}

uint32_t implied_by(const Insn& in) {
  if (in.encoding >= 2) return kAllRegisters;
  switch (in.map) {
    case 0:
      return implied_by_one_byte(in);
    case 1:
      return implied_by_two_byte(in);
    case 2:
      if (in.opcode == 0xf6 && in.encoding == 1) return kD;  // mulx
      if (in.opcode == 0x49 || in.opcode == 0x4b || (in.opcode >= 0xd8 && in.opcode <= 0xda) ||
          (in.opcode >= 0xf8 && in.opcode != 0xff))
        return kAllRegisters;
      return 0;
    default:
      return in.opcode == 0x60 || in.opcode == 0x61   ? kA | kC | kD
             : in.opcode == 0x62 || in.opcode == 0x63 ? kC
                                                      : 0;
  }
}

// Named by ModRM without being changed: cmp, test, mov to memory, push.
bool only_reads_registers(const Insn& in) {
  if (in.encoding != 0 || in.map != 0) return false;
  const uint8_t op = in.opcode;
  const bool group = op == 0x80 || op == 0x81 || op == 0x83;
  return (op >= 0x38 && op <= 0x3b) || op == 0x84 || op == 0x85 ||
         ((op == 0x88 || op == 0x89) && in.memory_operand()) || (group && (in.modrm >> 3 & 7) == 7);
}

}  // namespace

Load load_of(const Insn& in, const uint8_t* code) {
  const bool memory = in.memory_operand();
  constexpr Load kUnknown{Load::Unknown, false, 0};
  switch (in.cls) {
    case Class::Ret:
      return {Load::Stack, !in.opsize, 8};
    case Class::JmpInd:
    case Class::CallInd:
      return memory ? Load{Load::Operand, !in.opsize, 8} : Load{};
    case Class::Plain:
    case Class::Gs:
      break;
    case Class::Evex:
      return memory ? kUnknown : Load{};
    default:
      return {};
  }
  if (in.encoding >= 2) return memory ? kUnknown : Load{};
  if (reads_without_operand(in)) return kUnknown;
  if (pops(in)) return {Load::Stack, !in.opsize, 8};
  if (in.encoding == 0 && in.map == 0) {
    if (in.opcode == 0xc9) return {Load::Frame, !in.opsize, 8};
    if (in.opcode == 0x8f) return kUnknown;
  }
  if (!memory) return {};
  const bool bit = in.opcode == 0xa3 || in.opcode == 0xab || in.opcode == 0xb3 || in.opcode == 0xbb;
  if (in.encoding == 0 && in.map == 1 && bit) return kUnknown;  // far from their operand
  if (in.encoding == 1 && in.map == 2 &&
      ((in.opcode >= 0x90 && in.opcode <= 0x93) ||  // gathers, tiles
       in.opcode == 0x49 || in.opcode == 0x4b))
    return kUnknown;
  const bool vex = in.encoding == 1;
  uint8_t size = in.map == 0   ? read_by_one_byte(in)
                 : in.map == 1 ? read_by_two_byte(in, vex)
                 : in.map == 2 ? read_by_third_map(in, vex)
                               : read_by_fourth_map(in, vex);
  switch (size) {
    case kNothing:
      return {};
    case kNotKnown:
      return {Load::Operand, false, 0};
    case kOperandSize:
      size = sized(in);
      break;
    case kVector:
      size = vector_size(in, code);
      break;
    case kHalf:
      size = vector_size(in, code) / 2;
      break;
    case kQuarter:
      size = vector_size(in, code) / 4;
      break;
    case kEighth:
      size = vector_size(in, code) / 8;
      break;
    case kFourOrEight:
      size = word_size(in, code);
      break;
    default:
      break;
  }
  return {Load::Operand, true, size};
}

Registers registers_of(const Insn& in, const uint8_t* code) {
  Registers result;
  result.address = address_registers(in, code);
  const uint32_t implied = implied_by(in);
  if (implied == kAllRegisters) {
    result.others = result.changed = kAllRegisters;
    return result;
  }
  uint32_t named = 0;
  if (in.modrm_at) {
    const Extensions more = extensions_of(in, code);
    const uint32_t reg = 1u << ((in.modrm >> 3 & 7) | more.r << 3);
    named |= reg;
    if (!in.memory_operand()) named |= 1u << ((in.modrm & 7) | more.b << 3);
    if (more.vvvv < 16) named |= 1u << more.vvvv;
    // ah, ch, dh, bh look like rsp, rbp, rsi, rdi in byte instructions without REX.
    if (in.encoding == 0 && !in.rex) named |= (named & 0xf0) >> 4;
  }
  result.others = named | implied;
  const bool push = in.encoding == 0 && in.map == 0 && in.opcode >= 0x50 && in.opcode <= 0x57;
  result.changed = push ? kSp : only_reads_registers(in) ? implied : result.others;
  return result;
}

}  // namespace backstep::isa
