// What the thr_* programs share: threads that must start and end, a computation that nobody optimises away,
// clocks and short sleeps. Nothing here measures time: a slow machine must not change what a program prints.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

// pthread functions return their error.
#define OK0(x)              \
  do {                      \
    errno = (x);            \
    CHECK(#x&& errno == 0); \
  } while (0)

static inline pthread_t start(void* (*function)(void*), void* argument) {
  pthread_t thread;
  OK0(pthread_create(&thread, 0, function, argument));
  return thread;
}
static inline long join(pthread_t thread) {
  void* result;
  OK0(pthread_join(thread, &result));
  return (long)result;
}
static inline void said(const char* what) {
  printf("ok %s\n", what);
}

static inline void sleep_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR) {
  }
}
static inline int64_t now_ns(clockid_t clock) {
  struct timespec time;
  CHECK(clock_gettime(clock, &time) == 0);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}
static inline struct timespec after_us(clockid_t clock, long us) {
  int64_t ns = now_ns(clock) + us * 1000;
  return (struct timespec){ns / 1000000000, ns % 1000000000};
}
static inline pid_t my_tid(void) {
  return (pid_t)syscall(SYS_gettid);
}

// Some arithmetic; `n` steps are a few nanoseconds each.
static __attribute__((noinline, unused)) uint64_t compute(uint64_t n) {
  uint64_t x = 88172645463325252u;
  for (uint64_t i = 0; i < n; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    __asm__ volatile("" : "+r"(x));  // or the compiler drops calls whose result nobody wants
  }
  return x;
}
static inline uint64_t digest_of(uint64_t digest, uint64_t value) {
  return (digest ^ value) * 0x100000001b3u;
}
