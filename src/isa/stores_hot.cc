// The table is by opcode map. An entry says that instructions with a memory operand only read it, or how many
// bytes they write: a number, or one of the sizes that prefixes decide on. The few whose meaning depends on
// more than their prefixes (groups, which have a part of the opcode in ModRM) are functions.
//
// Nothing may be missing: who passes over stretches of a run in which a variable was not written to relies on
// it. So the table lists what is *known*; anything else with a memory operand counts as a store of at most so
// many bytes, and the strange ones as Unknown. tests/unit/stores_test.cc compares with Zydis on real programs
// and on random bytes.
#include "isa/stores.h"

#include "isa/sizes.h"

namespace backstep::isa {
namespace {

constexpr uint8_t kRead = 0xff;    // reads its operand, if anything
constexpr uint8_t kSized = 0xfe;   // writes an operand of 2, 4 or 8 bytes
constexpr uint8_t kFull = 0xfd;    // … of a whole vector register
constexpr uint8_t kWord = 0xfc;    // … of 4 or 8 bytes (REX.W, VEX.W)
constexpr uint8_t kUnsure = 0xfb;  // not known

// fst, fist and their relatives.
uint8_t x87(const Insn& in) {
  const unsigned reg = in.modrm >> 3 & 7;
  switch (in.opcode) {
    case 0xd9:
      return reg == 2 || reg == 3 ? 4 : reg == 7 ? 2 : reg == 6 ? kUnsure : kRead;
    case 0xdb:
      return reg >= 1 && reg <= 3 ? 4 : reg == 7 ? 10 : reg == 0 || reg == 5 ? kRead : kUnsure;
    case 0xdd:
      return reg >= 1 && reg <= 3 ? 8 : reg == 7 ? 2 : reg == 0 || reg == 4 ? kRead : kUnsure;
    case 0xdf:
      return reg >= 1 && reg <= 3 ? 2 : reg == 6 ? 10 : reg == 7 ? 8 : kRead;
    default:
      return kRead;
  }
}

uint8_t one_byte(const Insn& in) {
  const unsigned reg = in.modrm >> 3 & 7;
  const uint8_t op = in.opcode;
  const uint8_t width = op & 1 ? kSized : 1;                                  // of the forms that have both
  if (op < 0x40) return (op & 7) < 2 && (op & 0x38) != 0x38 ? width : kRead;  // 0x38: cmp
  if (op >= 0xd8 && op <= 0xdf) return x87(in);
  switch (op) {
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0x84:
    case 0x85:
    case 0x8a:
    case 0x8b:
    case 0x8d:
    case 0x8e:
      return kRead;
    case 0x80:
    case 0x81:
      return reg == 7 ? kRead : width;
    case 0x83:
      return reg == 7 ? kRead : kSized;
    case 0x86:
    case 0x87:
    case 0x88:
    case 0x89:
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return width;
    case 0x8c:
      return 2;
    case 0xc6:
    case 0xc7:
      return reg == 0 ? width : kUnsure;
    case 0xf6:
    case 0xf7:
      return reg == 2 || reg == 3 ? width : kRead;  // not, neg
    case 0xfe:
    case 0xff:
      return reg < 2 ? width : kUnsure;  // inc, dec
    default:
      return kUnsure;
  }
}

// Map 0F, legacy and VEX: most are vector instructions with the same meaning in both.
uint8_t two_byte(const Insn& in, bool vex) {
  const unsigned reg = in.modrm >> 3 & 7;
  const uint8_t op = in.opcode;
  const bool scalar = in.rep || in.repne;
  const uint8_t width = op & 1 ? kSized : 1;
  switch (op) {
    case 0x11:  // movups, movupd, movss, movsd
      return in.rep ? 4 : in.repne ? 8 : kFull;
    case 0x13:
    case 0x17:
      return scalar ? kUnsure : 8;
    case 0x29:
      return kFull;
    case 0x2b:  // movnt; scalar ones are AMD's
      return in.rep ? 4 : in.repne ? 8 : kFull;
    case 0x7e:
      return in.rep ? kRead : in.repne ? kUnsure : kWord;
    case 0x7f:
      return in.repne ? kUnsure : in.rep || in.opsize || vex ? kFull : 8;
    case 0xd6:
      return in.opsize && !scalar ? 8 : kUnsure;
    case 0xe7:
      return scalar ? kUnsure : in.opsize || vex ? kFull : 8;
    case 0xae:
      return reg == 3 && !scalar && !in.opsize ? 4 : reg == 2 && !scalar && !in.opsize ? kRead : kUnsure;
    default:
      break;
  }
  const bool reads = (op >= 0x10 && op <= 0x16) || op == 0x28 || op == 0x2a || (op >= 0x2c && op <= 0x2f) ||
                     (op >= 0x51 && op <= 0x70) || (op >= 0x74 && op <= 0x76) || op == 0x7c || op == 0x7d ||
                     op == 0xc2 || op == 0xc4 || op == 0xc6 || (op >= 0xd0 && op <= 0xef) ||
                     (op >= 0xf0 && op <= 0xfe && op != 0xf7);
  if (reads) return kRead;
  if (vex) return kUnsure;
  if (op >= 0x40 && op <= 0x4f) return kRead;  // cmov
  if (op >= 0x90 && op <= 0x9f) return 1;      // setcc
  switch (op) {
    case 0x0d:
    case 0x18:
    case 0x19:
    case 0x1f:
    case 0xa3:
    case 0xaf:
    case 0xb6:
    case 0xb7:
    case 0xb8:
    case 0xbc:
    case 0xbd:
    case 0xbe:
    case 0xbf:
      return kRead;
    case 0xa4:
    case 0xa5:
    case 0xac:
    case 0xad:
      return kSized;
    case 0xba:
      return reg == 4 ? kRead : reg > 4 ? kSized : kUnsure;
    case 0xb0:
    case 0xb1:
    case 0xc0:
    case 0xc1:
      return width;
    case 0xc3:
      return scalar || in.opsize ? kUnsure : kWord;
    case 0xc7:
      return reg == 1 && !scalar && !in.opsize ? (in.rex & 8 ? 16 : 8) : kUnsure;
    default:
      return kUnsure;
  }
}

uint8_t three_byte(const Insn& in, bool vex) {
  const uint8_t op = in.opcode;
  if (in.map == 3) {
    switch (op) {
      case 0x14:
        return 1;
      case 0x15:
        return 2;
      case 0x16:
        return kWord;
      case 0x17:
        return 4;
      case 0x19:
      case 0x39:
        return vex ? 16 : kUnsure;
      case 0x1d:
        return kUnsure;
      default:
        return vex && op >= 0x30 && op <= 0x33 ? kUnsure : kRead;  // 30-33: of mask registers
    }
  }
  if (vex) {
    if (op == 0x2e || op == 0x2f || op == 0x8e) return kUnsure;  // masked
    return op >= 0xe0 && op <= 0xef ? kUnsure : kRead;           // e0-ef: cmpccxadd
  }
  if (op == 0xf1) return in.repne ? kRead : in.rep ? kUnsure : kSized;  // movbe, crc32
  if (op == 0xf0) return kRead;
  if (op >= 0xf2) return op == 0xf6 && (in.opsize || in.rep) ? kRead : kUnsure;
  return op < 0x80 || op >= 0xc8 ? kRead : kUnsure;
}

bool is_string(uint8_t op) {
  return op == 0x6c || op == 0x6d || op == 0xa4 || op == 0xa5 || op == 0xaa || op == 0xab;
}

bool is_push(uint8_t op) {
  return (op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0x9c;
}

// ah, ch, dh, bh look like rsp, rbp, rsi, rdi in byte instructions without REX.
uint32_t low_registers(const Insn& in, uint32_t reg) {
  return !(in.opcode & 1) && !in.rex ? reg | reg >> 4 : reg;
}

// Registers that change while memory is written to.
uint32_t changes_of(const Insn& in) {
  const uint32_t reg = 1u << ((in.modrm >> 3 & 7) | (in.rex & 4) << 1);
  if (in.map == 0) return in.opcode == 0x86 || in.opcode == 0x87 ? low_registers(in, reg) : 0;  // xchg
  if (in.map != 1 || in.encoding != 0) return 0;
  if (in.opcode == 0xc0 || in.opcode == 0xc1) return low_registers(in, reg);  // xadd
  constexpr uint32_t kRax = 1, kRdx = 4;
  if (in.opcode == 0xb0 || in.opcode == 0xb1) return kRax;
  return in.opcode == 0xc7 ? kRax | kRdx : 0;
}

}  // namespace

uint32_t address_registers(const Insn& in, const uint8_t* code) {
  if (!in.memory_operand()) return 0;
  const unsigned mod = in.modrm >> 6, rm = in.modrm & 7;
  unsigned x = in.rex >> 1 & 1, b = in.rex & 1;
  if (in.encoding == 1 || in.encoding == 3) {
    const bool full = in.encoding == 3 || (in.opcode_at >= 3 && code[in.opcode_at - 3] == 0xc4);
    x = full ? ~code[in.opcode_at - 2] >> 6 & 1 : 0;
    b = full ? ~code[in.opcode_at - 2] >> 5 & 1 : 0;
  } else if (in.encoding == 2) {
    x = ~code[in.opcode_at - 3] >> 6 & 1;
    b = ~code[in.opcode_at - 3] >> 5 & 1;
  }
  if (rm != 4) return mod == 0 && rm == 5 ? 0 : 1u << (rm | b << 3);
  const uint8_t sib = code[in.modrm_at + 1];
  const unsigned index = (sib >> 3 & 7) | x << 3, base = sib & 7;
  uint32_t registers = index == 4 ? 0 : 1u << index;
  if (!(mod == 0 && base == 5)) registers |= 1u << (base | b << 3);
  return registers;
}

Store store_of(const Insn& in, const uint8_t* code) {
  if (in.cls == Class::Call || in.cls == Class::CallInd) return {Store::Stack, true, 8, 0};
  if (in.cls != Class::Plain && in.cls != Class::Evex && in.cls != Class::Gs) return {};
  const bool memory = in.memory_operand();
  constexpr Store kUnknown{Store::Unknown, false, 64, 0};
  if (in.encoding == 3) return memory ? kUnknown : Store{};
  if (in.encoding == 2) {
    // Displacements of one byte are scaled, scatters have many addresses.
    if (!memory) return {};
    const bool scatter = in.map == 2 && in.opcode >= 0xa0 && in.opcode <= 0xa3;
    return in.modrm >> 6 == 1 || scatter ? kUnknown : Store{Store::Operand, false, 64, 0};
  }
  if (in.encoding == 0 && in.map == 0) {
    if (is_push(in.opcode) || (in.opcode == 0xff && (in.modrm >> 3 & 7) == 6))
      return {Store::Stack, !in.opsize, 8, 0};
    if (is_string(in.opcode)) {
      if (in.rep || in.repne || in.addrsize) return kUnknown;
      return {Store::Rdi, true, in.opcode & 1 ? sized(in) : uint8_t{1}, 1u << 7};
    }
    // mov to a 64-bit address, enter, pop
    if (in.opcode == 0xa2 || in.opcode == 0xa3 || in.opcode == 0xc8) return kUnknown;
    if (in.opcode == 0x8f) return memory ? kUnknown : Store{};
  }
  if (in.encoding == 0 && in.map == 1) {
    if (in.opcode == 0xa0 || in.opcode == 0xa8) return {Store::Stack, !in.opsize, 8, 0};  // push fs, gs
    if (in.opcode == 0x01 && in.modrm == 0xfc) return kUnknown;                           // clzero
    // bts, btr, btc: far from their operand
    if (memory && (in.opcode == 0xab || in.opcode == 0xb3 || in.opcode == 0xbb)) return kUnknown;
  }
  if (in.map == 1 && in.opcode == 0xf7 && !memory) return {Store::Rdi, false, 16, 0};  // maskmovdqu
  if (in.encoding == 1 && in.map == 2 && (in.opcode == 0x49 || in.opcode == 0x4b) && memory)
    return kUnknown;                                      // of matrix tiles: many rows
  if (in.map == 2 && in.opcode == 0xf8) return kUnknown;  // movdir64b
  if (!memory) return {};

  const bool vex = in.encoding == 1;
  uint8_t size = in.map == 0 ? one_byte(in) : in.map == 1 ? two_byte(in, vex) : three_byte(in, vex);
  switch (size) {
    case kRead:
      return {};
    case kSized:
      size = sized(in);
      break;
    case kFull:
      size = vector_size(in, code);
      break;
    case kWord:
      size = word_size(in, code);
      break;
    case kUnsure:
      return {Store::Operand, false, static_cast<uint8_t>(vex ? 32 : 16), changes_of(in)};
    default:
      break;
  }
  return {Store::Operand, true, size, changes_of(in)};
}

}  // namespace backstep::isa
