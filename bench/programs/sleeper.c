// Sleeps most of the time and computes a little in between: its replay need not sleep.
//   sleeper TIMES      10 ms each
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  long times = argc > 1 ? atol(argv[1]) : 50;
  unsigned long x = 88172645463325252u;
  for (long i = 0; i < times; i++) {
    for (int k = 0; k < 1000000; k++) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    nanosleep(&(struct timespec){0, 10000000}, 0);
  }
  printf("%lx\n", x);
}
