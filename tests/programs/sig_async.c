// Timer signals every 100 us into a tight loop, string instructions, libc, vector code, recursion and system calls.
// The handler digests all registers of the place that it interrupted, so the output depends on every single landing.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"

static volatile uint64_t digest = 1, landings, nested;

static void handler(int signo, siginfo_t* info, void* context) {
  (void)info;
  ucontext_t* uc = context;
  for (int i = 0; i < NGREG; i++)
    if (i <= REG_EFL) digest = (digest ^ (uint64_t)uc->uc_mcontext.gregs[i]) * 0x100000001b3;
  unsigned char* vector = (unsigned char*)uc->uc_mcontext.fpregs;
  for (int i = 160; i < 416; i++) digest = (digest ^ vector[i]) * 0x100000001b3;
  landings++;
  if (landings % 64 == 0 && signo == SIGALRM) {
    nested++;
    raise(SIGUSR1);
  }
}

static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(int argc, char** argv) {
  long target = argc > 1 ? atol(argv[1]) : 200;
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  CHECK(sigaction(SIGALRM, &action, 0) == 0 && sigaction(SIGUSR1, &action, 0) == 0);
  struct itimerval timer = {{0, 100}, {0, 100}};
  CHECK(setitimer(ITIMER_REAL, &timer, 0) == 0);
  static unsigned char from[1 << 16], to[1 << 16];
  static int numbers[4096];
  double sum = 0;
  for (int phase = 0; phase < 7; phase++) {
    uint64_t until = landings + (uint64_t)target;
    for (unsigned round = 0; landings < until; round++) {
      switch (phase) {
        case 0: {  // two instructions
          uint64_t n = 20000;
          __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(n)::"cc");
          break;
        }
        case 1: {  // string instructions, forwards and backwards
          void *d = to, *s = from;
          uint64_t n = sizeof from;
          __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n)::"memory");
          d = to + sizeof to - 1;
          n = sizeof to;
          __asm__ volatile("std\n rep stosb\n cld" : "+D"(d), "+c"(n) : "a"(round) : "memory");
          break;
        }
        case 2:
          for (int i = 0; i < 4096; i++) numbers[i] = (int)((unsigned)i * 2654435761u >> 8) ^ (int)round;
          qsort(numbers, 4096, sizeof numbers[0], compare);
          break;
        case 3:
          for (int i = 1; i < 3000; i++) sum += 1.0 / (i * (double)i + round);
          memset(from, (int)round, sizeof from);
          sum += (double)strlen((char*)memchr(from, (int)round, sizeof from) ? "x" : "");
          break;
        case 4: sum += fib(18); break;
        case 5:
          for (int i = 0; i < 200; i++) sum += getppid() > 0;
          break;
        default: {
          char text[200];
          for (int i = 0; i < 50; i++) snprintf(text, sizeof text, "%d %s %f", i, "text", sum);
          break;
        }
      }
    }
    printf("phase %d digest %lx\n", phase, digest);
  }
  timer = (struct itimerval){{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &timer, 0) == 0);
  printf("%lu landings, %lu nested, digest %lx, sum %.17g\n", landings, nested, digest, sum);
  return 0;
}
