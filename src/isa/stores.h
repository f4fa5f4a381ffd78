// What an instruction writes to memory and reads from it, and which registers it has to do with: the one
// table for watchpoints, tables of contents, traces and the tests, which hold it against Zydis.
#pragma once
#include <cstdint>

#include "isa/decode.h"

namespace backstep::isa {

struct Store {
  enum Where : uint8_t {
    None,     // nothing
    Operand,  // its ModRM operand
    Stack,    // below rsp, as push and call do
    Rdi,      // at rdi: stos, movs, maskmov
    Unknown,  // who wants to know has to look at the registers (guest/accesses.h)
  };
  Where where = None;
  bool exact = false;  // `size` bytes, all of them; else at most so many
  uint8_t size = 0;
  // General registers that it changes while it writes. An address that was made of one of them is another one
  // afterwards.
  uint32_t changes = 0;
};

// `code`: the bytes that `in` was decoded from. Whatever may write to memory without being known to the table
// is Unknown, or an Operand of inexact size.
Store store_of(const Insn& in, const uint8_t* code);

struct Load {
  enum Where : uint8_t {
    None,     // nothing
    Operand,  // its ModRM operand
    Stack,    // at rsp, as pop and ret do
    Frame,    // at rbp: leave
    Unknown,  // as above
  };
  Where where = None;
  bool exact = false;  // `size` bytes, all of them; else not known
  uint8_t size = 0;
};

// Likewise: whatever may read memory without being known to the table is Unknown, or inexact.
Load load_of(const Insn& in, const uint8_t* code);

// General registers by their numbers. None is missing; there may be too many.
struct Registers {
  uint32_t address = 0;  // that the address of its memory operand is made of
  uint32_t others = 0;   // that it has to do with otherwise
  uint32_t changed = 0;  // of those, what it may change
};
inline constexpr uint32_t kAllRegisters = 0xffff;
Registers registers_of(const Insn& in, const uint8_t* code);

// Registers that the address of its memory operand is made of.
uint32_t address_registers(const Insn& in, const uint8_t* code);

}  // namespace backstep::isa
