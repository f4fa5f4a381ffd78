// What process.cc and process_memory.cc share: system calls without libc in between, and which ranges can be
// the guest's at all.
#pragma once
#include <cstdint>

#include "base/hot.h"

namespace backstep::guest {

inline constexpr uint64_t kUserEnd = 0x7fff'ffff'f000;

template <class... Args>
long raw(long nr, Args... args) {
  long a[6] = {static_cast<long>(args)...};
  return hot::syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

inline bool valid_range(uint64_t addr, uint64_t length) {
  return addr <= kUserEnd && length <= kUserEnd && addr + length <= kUserEnd;
}

}  // namespace backstep::guest
