// Repeated string instructions through memory that another process changes: they meet pages which are not
// there, half done, while other threads want to run and signals arrive.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kSize = 16 * 4096 };
static unsigned char* shared;
static volatile int over;
static volatile uint64_t alarms, others;

static void copy(void* to, const void* from, unsigned long n) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

static void fill(void* to, unsigned char value, unsigned long n) {
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
}

static void on_alarm(int signo) {
  (void)signo;
  alarms++;
}

static void* compute(void* unused) {
  while (!over) others++;
  return unused;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1;
  shared = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  const double end = now() + seconds;
  uint64_t sum = 0;
  static unsigned char own[kSize];
  if (child != 0) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, NULL);
  }
  pthread_t thread;
  pthread_create(&thread, NULL, compute, NULL);
  for (unsigned i = 0; now() < end; i++) {
    if (i % 3 == 0)
      fill(shared + i % 1000, (unsigned char)i, kSize - 5000);
    else if (i % 3 == 1)
      copy(own, shared, kSize);
    else
      copy(shared + 300, own, kSize - 300);
    for (unsigned k = 0; k < kSize; k += 1021) sum = sum * 31 + own[k];
  }
  over = 1;
  pthread_join(thread, NULL);
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  printf("%llx, %d\n", (unsigned long long)sum, alarms > 0 && others > 0);
  return 0;
}
