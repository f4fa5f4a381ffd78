// One function, called often: a place for a breakpoint.
#include <stdio.h>
#include <stdlib.h>

static volatile long total;

__attribute__((noinline)) void hit(long i) {
  total += i;
}

int main(int argc, char** argv) {
  const long n = argc > 1 ? atol(argv[1]) : 1000000;
  for (long i = 0; i < n; i++) hit(i);
  printf("%ld\n", total);
  return 0;
}
