// A thread that wakes another one and then spins until that one has run: it does not stop by itself, and nobody else
// was ready while it slept, so no timer of the recorder's was set.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int word, ran;

static void* sleeper(void* unused) {
  (void)unused;
  for (int round = 1; round <= 20; round++) {
    while (atomic_load(&word) < round) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, round - 1, 0, 0, 0);
    atomic_store(&ran, round);
  }
  return 0;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, sleeper, 0);
  for (int round = 1; round <= 20; round++) {
    nanosleep(&(struct timespec){0, 5000000}, 0);
    atomic_store(&word, round);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    while (atomic_load(&ran) < round) {
    }
  }
  pthread_join(thread, 0);
  puts("woken 20 times");
  return 0;
}
