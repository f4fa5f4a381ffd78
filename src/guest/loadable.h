// What a CPU loads without a fault. The kernel checks what programs give it; what comes from files of
// strangers is checked by these.
#pragma once
#include <cstdint>

namespace backstep::guest {

// A segment's base: canonical.
inline bool is_base(uint64_t address) {
  constexpr uint64_t kHalf = 1ull << 47;
  return address < kHalf || address >= -kHalf;
}

// Flags: those that there are, and not the one that traps at each instruction.
inline bool is_flags(uint64_t flags) {
  constexpr uint64_t kTrap = 0x100, kAll = 0x3f'ffff;
  return !(flags & (kTrap | ~kAll));
}

// Vector state in standard XSAVE form (Context::xsave): for some CPU, for this one.
bool is_loadable(const void* xsave);
bool is_loadable_here(const void* xsave);

}  // namespace backstep::guest
