// Locked and 16-byte atomics: cmpxchg8b/16b hit and miss, xadd, xchg (implicit lock), locked arithmetic on
// memory, on unaligned operands over a cache line too.
#include <stdint.h>

#include "check.h"

int main(void) {
  _Alignas(64) unsigned char line[128] = {0};
  unsigned __int128 value = ((unsigned __int128)0x1111 << 64) | 0x2222;
  _Alignas(16) unsigned __int128 cell = value;
  unsigned char hit;
  uint64_t low = 0x2222, high = 0x1111;
  __asm__ volatile("lock cmpxchg16b %0; setz %1"
                   : "+m"(cell), "=q"(hit), "+a"(low), "+d"(high)
                   : "b"(5ul), "c"(6ul)
                   : "cc");
  CHECK(hit && (uint64_t)cell == 5 && (uint64_t)(cell >> 64) == 6);
  __asm__ volatile("lock cmpxchg16b %0; setz %1"
                   : "+m"(cell), "=q"(hit), "+a"(low), "+d"(high)
                   : "b"(7ul), "c"(8ul)
                   : "cc");
  CHECK(!hit && low == 5 && high == 6);
  uint64_t small = 0xaaaaaaaabbbbbbbb;
  uint32_t eax = 0xbbbbbbbb, edx = 0xaaaaaaaa;
  __asm__ volatile("cmpxchg8b %0; setz %1"
                   : "+m"(small), "=q"(hit), "+a"(eax), "+d"(edx)
                   : "b"(1), "c"(2)
                   : "cc");
  CHECK(hit && small == 0x200000001);

  uint64_t sum = 0, counter = 0;
  for (int i = 0; i < 10000; i++) {
    sum += __atomic_fetch_add(&counter, i, __ATOMIC_SEQ_CST);
    __atomic_xor_fetch((uint32_t*)(line + 60), (uint32_t)i, __ATOMIC_SEQ_CST);
  }
  CHECK(counter == 49995000);
  uint64_t unaligned;
  memcpy(&unaligned, line + 60, 8);
  uint64_t old = 0x1234567812345678;
  __asm__ volatile("xchg %0, %1" : "+r"(old), "+m"(*(uint64_t*)(line + 62)));
  __asm__ volatile("lock incq %0; lock negq %0; lock notq %0" : "+m"(*(uint64_t*)(line + 59))::"cc");
  uint64_t digest = 0;
  for (int i = 0; i < 128; i++) digest = digest * 31 + line[i];
  uint8_t byte = 200, other = 200, with = 9;
  __asm__ volatile("lock cmpxchgb %2, %0" : "+m"(byte), "+a"(other) : "q"(with) : "cc");
  CHECK(byte == 9);
  __sync_synchronize();
  printf("atomics right, sum %lu digest %lu old %lx\n", sum, digest, old);
}
