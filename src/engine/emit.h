// Writing machine code: the few instructions that the translator adds of its own.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cache.h"
#include "engine/context.h"
#include "engine/layout.h"

namespace backstep::engine {

// Absolute 32-bit address of a context field.
#define BACKSTEP_FIELD(f) static_cast<uint32_t>(layout::kHotPage + offsetof(Context, f))

// Fixed jump pads at the start of the cache; host code is too far away for a rel32.
enum class Pad : uint32_t { Branch, Miss, HostOp, Tick, Wide, Syscall, Probe, Count };
inline constexpr uint32_t pad_address(Pad pad) {
  return static_cast<uint32_t>(layout::kCacheStart) + 16 * static_cast<uint32_t>(pad);
}
inline constexpr uint64_t kPadsSize = 256;

// The table lookup of every indirect branch: mov r11d, gs:[r11*4]; jmp r11. Faults when r11 is beyond the
// table; the fault handler recognises it by these bytes.
inline constexpr uint8_t kLookup[12] = {0x65, 0x46, 0x8b, 0x1c, 0x9d, 0, 0, 0, 0, 0x41, 0xff, 0xe3};

inline constexpr uint32_t kJumpSize = 5;  // jmp rel32

// What stands before a copied instruction with a gs: prefix: r11 spilled, the guest's GS base loaded through
// it.
inline constexpr uint32_t kGsPrologue = 29;

// Where the guest's r11 is from the first instruction of an indirect branch until its landing: in xmm29, as
// the counter is in xmm31, or in Context::spill_r11. Checked landings load it from the slot anyway: that load
// is the check.
inline bool r11_in_vector() {
  return bs_cache.vector && !bs_cache.check;
}

struct Emitter {
  uint8_t* p;

  void u8(uint8_t v) { *p++ = v; }
  void u16(uint16_t v) { put(v); }
  void u32(uint32_t v) { put(v); }
  void u64(uint64_t v) { put(v); }
  void bytes(const uint8_t* b, unsigned n) {
    for (unsigned i = 0; i < n; i++) p[i] = b[i];
    p += n;
  }
  template <unsigned N>
  void raw(const uint8_t (&b)[N]) {
    bytes(b, N);
  }

  // mov [abs], reg / mov reg, [abs]
  void store(int reg, uint32_t address) { absolute(reg, 0x89, address); }
  void load(int reg, uint32_t address) { absolute(reg, 0x8b, address); }
  void store_imm32(uint32_t address, uint32_t value) {  // mov dword [abs], imm
    u8(0xc7), u8(0x04), u8(0x25), u32(address), u32(value);
  }
  void move_imm64(int reg, uint64_t value) {
    u8(static_cast<uint8_t>(0x48 | (reg >> 3))), u8(static_cast<uint8_t>(0xb8 | (reg & 7))), u64(value);
  }
  // Returns the address of the rel32.
  uint32_t jump(uint32_t target) {
    u8(0xe9);
    return relative(target);
  }
  uint32_t relative(uint32_t target) {
    auto at = static_cast<uint32_t>(reinterpret_cast<uint64_t>(p));
    u32(target - (at + 4));
    return at;
  }
  uint32_t address() const { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p)); }

 private:
  template <class T>
  void put(T v) {
    __builtin_memcpy(p, &v, sizeof v);
    p += sizeof v;
  }
  void absolute(int reg, uint8_t opcode, uint32_t address) {
    u8(static_cast<uint8_t>(0x48 | ((reg >> 3) << 2))), u8(opcode);
    u8(static_cast<uint8_t>(0x04 | ((reg & 7) << 3))), u8(0x25), u32(address);
  }
};

// A register for a check to borrow: one that the code around it does not use, as the load that gives it back
// takes its time. r10 has no meaning over a call. (r12 would need a SIB byte.)
inline int idle_register(uint32_t used) {
  constexpr int kCandidates[] = {R10, R9, R8, R15, R14, R13, RBP, RDI, RSI, RBX};
  for (int candidate : kCandidates)
    if (!(used >> candidate & 1)) return candidate;
  return R10;
}

// A landing for code that is translated already: landing, then a linked jump to `body` of `block`.
void emit_landing_stub(Emitter& e, Address pc, uint32_t block, uint32_t body);

inline uint32_t relative_target(uint32_t at) {
  uint32_t value;
  __builtin_memcpy(&value, reinterpret_cast<void*>(static_cast<uint64_t>(at)), 4);
  return at + 4 + value;
}
inline void patch_relative(uint32_t at, uint32_t target) {
  uint32_t value = target - (at + 4);
  __builtin_memcpy(reinterpret_cast<void*>(static_cast<uint64_t>(at)), &value, 4);
}

}  // namespace backstep::engine
