// The "hot world": code that runs between two guest instructions without saving the guest's vector
// registers and with the guest's FS base still loaded. Such code is compiled with -mgeneral-regs-only,
// without stack protector, exceptions or libc calls (tests/hot_world.cmake checks the object files).
// This header holds the few primitives it needs; everything here is inline, so that it is compiled with
// the flags of its user. Ordinary host code may use it too.
#pragma once
#include <cstddef>
#include <cstdint>

namespace backstep::hot {

// One system call, the kernel's way: -errno on failure, no errno variable touched.
inline long syscall6(long nr, long a, long b, long c, long d, long e, long f) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long ret;
  asm volatile("syscall"
               : "=a"(ret)
               : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return ret;
}
inline long syscall(uint64_t nr, const uint64_t args[6]) {
  return syscall6(static_cast<long>(nr), static_cast<long>(args[0]), static_cast<long>(args[1]),
                  static_cast<long>(args[2]), static_cast<long>(args[3]), static_cast<long>(args[4]),
                  static_cast<long>(args[5]));
}
inline bool is_error(long ret) {
  return static_cast<unsigned long>(ret) >= static_cast<unsigned long>(-4095);
}

// rep movsb is fast for any size on CPUs with ERMS/FSRM and uses no vector register the guest could see.
inline void copy(void* to, const void* from, size_t n) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}
inline void fill32(void* to, uint32_t value, size_t count) {
  asm volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(value) : "memory");
}

// CRC-32C by the SSE4.2 instruction (which works on general registers). Every x86-64 CPU since 2008 has it;
// the command line refuses to start on one without.
inline uint32_t crc32c(uint32_t crc, const void* data, size_t n) {
  auto* p = static_cast<const unsigned char*>(data);
  uint64_t c = crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    __builtin_memcpy(&word, p, 8);
    asm("crc32q %1, %0" : "+r"(c) : "r"(word));
  }
  auto c32 = static_cast<uint32_t>(c);
  for (; n > 0; n--, p++) asm("crc32b %1, %0" : "+r"(c32) : "rm"(*p));
  return c32;
}

}  // namespace backstep::hot
