// Sieve of Eratosthenes, several times over: tight loops with one backward branch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLimit = 1 << 21 };
static unsigned char composite[kLimit];

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 60;
  unsigned long sum = 0;
  for (int round = 0; round < rounds; round++) {
    memset(composite, 0, sizeof composite);
    for (unsigned i = 2; i * i < kLimit; i++)
      if (!composite[i])
        for (unsigned j = i * i; j < kLimit; j += i) composite[j] = 1;
    for (unsigned i = 2; i < kLimit; i++)
      if (!composite[i]) sum += i;
  }
  printf("%lu\n", sum);
}
