// A long computation for the debugger's figures: hashes over a table that it keeps changing, in rounds. `quiet` lies on
// a page of its own and is written in the middle of the run only; `busy` shares its page with what every round writes.
// usage: long ROUNDS [crash]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (1 << 18)
static uint64_t table[WORDS];  // 2 MB
struct page {
  volatile uint64_t value, other;
  char rest[4096 - 16];
} __attribute__((aligned(4096)));
struct page quiet, busy;
uint64_t watched[10000];  // never written

__attribute__((noinline)) static uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 29;
  return x;
}

__attribute__((noinline)) static uint64_t one_round(uint64_t seed) {
  uint64_t sum = 0;
  for (int i = 0; i < 40000; i++) {
    seed = mix(seed + (uint64_t)i);
    uint64_t* word = &table[seed % WORDS];
    *word += sum + seed;
    sum += mix(*word) & 0xff;
  }
  return sum;
}

int main(int argc, char** argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 100;
  uint64_t sum = 0;
  for (long r = 0; r < rounds; r++) {
    if (r == rounds / 2) quiet.value = sum | 1;
    if (r == rounds / 2) busy.value = sum | 1;
    busy.other++;
    sum += one_round((uint64_t)r);
  }
  printf("%llu %llu\n", (unsigned long long)sum, (unsigned long long)watched[rounds % 10000]);
  fflush(stdout);
  if (argc > 2) *(volatile int*)8 = 1;
  return 0;
}
