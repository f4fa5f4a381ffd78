// fib(40): nothing but calls and returns.
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) unsigned long fib(unsigned n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char** argv) {
  unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 40;
  printf("%lu\n", fib(n));
}
