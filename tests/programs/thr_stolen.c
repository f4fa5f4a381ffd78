// Calls that should not wait, and do: a reader of an eventfd beside threads that sleep all the time, and two processes
// with threads that read the same pipe, so that what poll promises to one is often taken by the other. Natively neither
// can hang: who waits in a call does not stop the other threads.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "thr.h"

enum { kBytes = 3000, kSleepers = 3 };
static int event, bytes[2];
static atomic_int over;

static void* sleeper(void* unused) {
  while (!over) sleep_us(50);
  return 0;
}
static void* teller(void* unused) {
  for (int i = 0; i < 500; i++) {
    uint64_t one = 1;
    sleep_us(i % 7 * 30);
    CHECK(write(event, &one, sizeof one) == sizeof one);
  }
  return 0;
}
static void beside_sleepers(void) {
  CHECK((event = eventfd(0, 0)) >= 0);
  pthread_t threads[kSleepers], writer = start(teller, 0);
  for (int i = 0; i < kSleepers; i++) threads[i] = start(sleeper, 0);
  for (uint64_t all = 0, n; all < 500; all += n) CHECK(read(event, &n, sizeof n) == sizeof n);
  over = 1;
  for (int i = 0; i < kSleepers; i++) join(threads[i]);
  join(writer);
  said("an eventfd beside sleepers");
}

static void* taker(void* unused) {
  long taken = 0;
  char byte = 0;
  while (byte != 'q') {
    struct pollfd ready = {bytes[0], POLLIN, 0};
    CHECK(poll(&ready, 1, -1) == 1);
    CHECK(read(bytes[0], &byte, 1) == 1);
    taken++;
  }
  return (void*)taken;
}
static void* giver(void* unused) {
  for (int i = 0; i < kBytes; i++) {
    CHECK(write(bytes[1], "x", 1) == 1);
    if (i % 16 == 0) sleep_us(1);
  }
  return 0;
}
// Each has two readers and a thread that does something else.
static long take(int gives) {
  over = 0;
  pthread_t a = start(taker, 0), b = start(taker, 0), c = start(sleeper, 0);
  if (gives) {
    giver(0);
    CHECK(write(bytes[1], "qqqq", 4) == 4);
  }
  long taken = join(a) + join(b);
  over = 1;
  join(c);
  return taken;
}
static void two_processes(void) {
  int counts[2];
  long here, there = 0;
  CHECK(pipe(bytes) == 0 && pipe(counts) == 0);
  fflush(0);
  pid_t child = fork();
  if (child == 0) {
    there = take(0);
    CHECK(write(counts[1], &there, sizeof there) == sizeof there);
    _exit(0);
  }
  here = take(1);
  CHECK(read(counts[0], &there, sizeof there) == sizeof there && waitpid(child, 0, 0) == child);
  CHECK(here + there == kBytes + 4);
  said("two processes that read one pipe");
}

int main(void) {
  for (int i = 0; i < 3; i++) {
    over = 0;
    beside_sleepers();
    two_processes();
  }
}
