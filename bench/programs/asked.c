/* What `./run bench --ask` asks about: a function that is called N million times, and a thousand others. */
#include <stdio.h>
#include <stdlib.h>

static unsigned long sum;

__attribute__((noinline)) void step(unsigned i, unsigned j) { sum = sum * 31 + (i ^ j); }

#define F1(n) \
  __attribute__((noinline)) static void f##n(unsigned i) { sum += i ^ n##u; }
#define F10(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7) F1(n##8) F1(n##9)
#define F100(n) F10(n##0) F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
F100(1) F100(2) F100(3) F100(4) F100(5) F100(6) F100(7) F100(8) F100(9) F100(10)
#define N1(n) f##n,
#define N10(n) N1(n##0) N1(n##1) N1(n##2) N1(n##3) N1(n##4) N1(n##5) N1(n##6) N1(n##7) N1(n##8) N1(n##9)
#define N100(n) N10(n##0) N10(n##1) N10(n##2) N10(n##3) N10(n##4) N10(n##5) N10(n##6) N10(n##7) N10(n##8) N10(n##9)
static void (*const functions[])(unsigned) = {N100(1) N100(2) N100(3) N100(4) N100(5) N100(6) N100(7) N100(8) N100(9) N100(10)};

int main(int argc, char** argv) {
  unsigned millions = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  for (unsigned i = 0; i < millions; i++)
    for (unsigned j = 0; j < 1000000; j++) step(i, j);
  for (unsigned i = 0; i < millions; i++)
    for (unsigned j = 0; j < 100; j++)
      for (unsigned k = 0; k < 1000; k++) functions[k](j);
  printf("%lu\n", sum);
  return 0;
}
