// Asks for the time, again and again.
//   clock CALLS
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  long calls = argc > 1 ? atol(argv[1]) : 5000000, backwards = 0;
  struct timespec last = {0, 0}, now;
  for (long i = 0; i < calls; i++) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    backwards += now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec);
    last = now;
  }
  printf("%ld times, %ld backwards\n", calls, backwards);
}
