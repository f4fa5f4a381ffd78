// A repeated string instruction through many pages of memory that another process has: half-way that process
// takes an early page once more and ends, so that all pages become ours at once, those before the present one
// too.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 512, kEarly = 1, kSign = 8 };

static void fill(volatile void* to, unsigned char value, unsigned long n) {
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  unsigned long sum = 0;
  for (int i = 0; i < rounds; i++) {
    volatile unsigned char* shared =
        mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t child = fork();
    if (child == 0) {
      for (int k = kPages; k-- > 0;) shared[k * kPage] = 1;  // all of them are its own, the first one last
      while (shared[kSign * kPage] != 2) continue;
      shared[kEarly * kPage + 7] = 3;
      _exit(0);
    }
    while (shared[0] != 1) continue;
    fill(shared, 2, kPages * kPage);
    waitpid(child, NULL, 0);
    for (int k = 0; k < kPages * kPage; k++) sum = sum * 31 + shared[k];
    munmap((void*)shared, kPages * kPage);
  }
  printf("%lx\n", sum);
  return 0;
}
