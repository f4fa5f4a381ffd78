// Saving and restoring vector state by hand, as lazy binding and user-level threads do: fxsave/fxrstor,
// xsave/xrstor, xsavec, with the size that cpuid gives; registers the area holds come back, others stay.
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>

#include "check.h"

static _Alignas(64) unsigned char area[16384];

static __attribute__((noinline)) int burn(int n) {
  return n < 2 ? n : burn(n - 1) + burn(n - 2);
}

int main(void) {
  unsigned a, size, c, d;
  __cpuid_count(0xd, 0, a, size, c, d);
  CHECK(size <= sizeof area && size >= 576);
  uint64_t xcr0;
  {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    xcr0 = (uint64_t)high << 32 | low;
  }
  CHECK((xcr0 & 3) == 3);

  uint64_t pattern[4] = {next_number(), next_number(), next_number(), next_number()}, got[4];
  for (int kind = 0; kind < 3; kind++) {
    memset(area, 0, sizeof area);
    uint32_t low = kind == 0 ? 7 : (uint32_t)xcr0, high = kind == 0 ? 0 : (uint32_t)(xcr0 >> 32);
    // Save with the pattern in ymm9, destroy it, run code that counts ticks, restore.
    if (kind < 2)
      __asm__ volatile("vmovdqu (%0), %%ymm9; xsave64 (%1)" ::"r"(pattern), "r"(area), "a"(low), "d"(high)
                       : "memory", "xmm9");
    else
      __asm__ volatile("vmovdqu (%0), %%ymm9; xsavec64 (%1)" ::"r"(pattern), "r"(area), "a"(low), "d"(high)
                       : "memory", "xmm9");
    CHECK(burn(12) == 144);
    __asm__ volatile("vpxor %%ymm9, %%ymm9, %%ymm9; xrstor64 (%1); vmovdqu %%ymm9, (%0)" ::"r"(got),
                     "r"(area), "a"(low), "d"(high)
                     : "memory", "xmm9");
    CHECK(memcmp(pattern, got, sizeof got) == 0);
    uint64_t header[2];
    memcpy(header, area + 512, 16);
    CHECK((header[0] & ~xcr0) == 0 && (header[0] & 6) == 6);
    if (kind == 2) CHECK(header[1] >> 63 == 1);
  }
  // A partial restore leaves the rest alone: only SSE, upper half of ymm9 stays... after the area said so.
  uint64_t other[4] = {1, 2, 3, 4};
  memset(area, 0, sizeof area);
  __asm__ volatile("vmovdqu (%0), %%ymm9; xsave64 (%1)" ::"r"(pattern), "r"(area), "a"(7), "d"(0)
                   : "memory", "xmm9");
  __asm__ volatile("vmovdqu (%2), %%ymm9; xrstor64 (%1); vmovdqu %%ymm9, (%0)" ::"r"(got), "r"(area),
                   "r"(other), "a"(2), "d"(0)
                   : "memory", "xmm9");
  CHECK(got[0] == pattern[0] && got[1] == pattern[1] && got[2] == 3 && got[3] == 4);

  memset(area, 0xee, 512);
  __asm__ volatile(
      "movdqu (%0), %%xmm3; fxsave64 (%1); pxor %%xmm3, %%xmm3; fxrstor64 (%1); movdqu %%xmm3, (%2)" ::"r"(
          pattern),
      "r"(area), "r"(got)
      : "memory", "xmm3");
  CHECK(memcmp(pattern, got, 16) == 0 && memcmp(area + 160 + 48, pattern, 16) == 0);
  uint32_t mxcsr, saved;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  memcpy(&saved, area + 24, 4);
  CHECK(mxcsr == saved);
  // xgetbv(1) and xsaveopt where the CPU has them.
  __cpuid_count(0xd, 1, a, size, c, d);
  if (a & 1) __asm__ volatile("xsaveopt64 (%0)" ::"r"(area), "a"((uint32_t)xcr0), "d"(0) : "memory");
  printf("xsave right, xcr0 %lx size of area %u\n", xcr0, size);
}
