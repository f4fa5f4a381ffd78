// The ends of a process with threads that sleep, wait, compute and spin: return from main, exit and _exit in any
// thread, the end of the last thread, signals that kill.
//   thr_end main|exit|_exit|thread-exit|thread-_exit|last|raw|kill|tgkill|abort|segv|fpe|ill|overflow
#include <sys/mman.h>
#include <sys/resource.h>

#include "thr.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int flag;
static int pipes[2];
static atomic_int entered;

static void* reads(void* argument) {
  char byte;
  entered++;
  read(pipes[0], &byte, 1);
  return 0;
}
static void* waits(void* argument) {
  entered++;
  pthread_mutex_lock(&mutex);
  return 0;
}
static void* sleeps(void* argument) {
  entered++;
  sleep(1000);
  return 0;
}
static void* computes(void* argument) {
  entered++;
  for (;;) compute(1000);
  return 0;
}
static void* spins(void* argument) {
  entered++;
  while (!flag) {
  }
  return 0;
}

static __attribute__((noinline)) long deeper(long n, volatile char* before) {
  volatile char space[4096];
  space[n % 4096] = before ? before[0] : 1;
  return deeper(n + 1, space) + space[7];
}

static const char* how;
static void* ends(void* argument) {
  if (!strcmp(how, "thread-exit")) exit(21);
  if (!strcmp(how, "thread-_exit")) _exit(22);
  if (!strcmp(how, "raw")) syscall(SYS_exit_group, 23);
  if (!strcmp(how, "kill")) kill(getpid(), SIGTERM);
  if (!strcmp(how, "tgkill")) pthread_kill(pthread_self(), SIGUSR1);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "segv")) *(volatile int*)(uintptr_t)(entered * 8) = 1;
  if (!strcmp(how, "fpe")) {
    volatile int some = 100, zero = entered - 5;
    some = some / zero;
  }
  if (!strcmp(how, "ill")) __asm__ volatile("ud2");
  if (!strcmp(how, "overflow")) deeper(0, 0);
  sleep(1000);
  return 0;
}

static void at_exit(void) { printf("atexit in %s\n", my_tid() == getpid() ? "main" : "another"); }

int main(int argc, char** argv) {
  how = argc > 1 ? argv[1] : "main";
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  atexit(at_exit);
  CHECK(pipe(pipes) == 0);
  pthread_mutex_lock(&mutex);
  if (!strcmp(how, "last")) {
    // All end, main first; the last one to end makes status 0.
    for (int i = 0; i < 5; i++) start(i % 2 ? reads : spins, 0);
    while (entered < 5) sched_yield();
    CHECK(write(pipes[1], "abcde", 5) == 5);
    flag = 1;
    syscall(SYS_exit, 99);
  }
  void* (*functions[])(void*) = {reads, waits, sleeps, computes, spins};
  for (int i = 0; i < 5; i++) start(functions[i], 0);
  while (entered < 5) sched_yield();
  sleep_us(1000);
  printf("%s\n", how);
  if (!strcmp(how, "main")) return 19;
  if (!strcmp(how, "exit")) exit(20);
  fflush(stdout);
  if (!strcmp(how, "_exit")) _exit(18);
  start(ends, 0);
  for (;;) pause();
}
