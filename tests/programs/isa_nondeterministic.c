// What the program cannot compute by itself: time stamp counter, random numbers, processor number, cpuid,
// xgetbv. Every run prints something else; a replay must print what was recorded.
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>

#include "check.h"

int main(void) {
  uint64_t last = 0;
  for (int i = 0; i < 50; i++) {
    uint64_t now = __rdtsc();
    CHECK(now > last);
    last = now;
    unsigned processor, code;
    uint64_t other = __rdtscp(&processor);
    CHECK(other > now);
    __asm__ volatile("rdpid %%rax; mov %%eax, %0" : "=r"(code)::"rax");
    if (i % 10 == 0) printf("tsc %lu tscp %lu aux %x pid %x\n", now, other, processor, code);
  }
  for (int i = 0; i < 20; i++) {
    unsigned short small = 0;
    unsigned medium = 0;
    unsigned long long large = 0, seed = 0;
    int ok = _rdrand16_step(&small) + _rdrand32_step(&medium) + _rdrand64_step(&large);
    int seeded = 0;
    for (int attempt = 0; attempt < 1000 && !seeded; attempt++) seeded = _rdseed64_step(&seed);
    printf("rdrand %d %04x %08x %016llx rdseed %d %016llx\n", ok, small, medium, large, seeded, seed);
  }
  for (unsigned leaf = 0; leaf <= 0xd; leaf++) {
    unsigned a, b, c, d;
    __cpuid_count(leaf, 0, a, b, c, d);
    printf("cpuid %x: %08x %08x %08x %08x\n", leaf, a, b, c, d);
  }
  for (unsigned leaf = 0x80000000; leaf <= 0x80000008; leaf++) {
    unsigned a, b, c, d;
    __cpuid_count(leaf, 0, a, b, c, d);
    printf("cpuid %x: %08x %08x %08x %08x\n", leaf, a, b, c, d);
  }
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  printf("xcr0 %08x%08x\n", high, low);
  unsigned a, b, c, d;
  __cpuid_count(7, 0, a, b, c, d);
  // What cpuid shows must hang together: AVX-512 without its state enabled would be a trap for libc.
  CHECK(!(b & 1u << 16) || (low & 0xe0) == 0xe0);
}
