// The futex call itself, operation by operation, with what it returns. Where a thread has to be asleep first, the waker
// asks until it is: WAKE, REQUEUE and WAKE_OP say how many they found.
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "thr.h"

static long futex(void* word, int op, unsigned value, const void* timeout, void* word2, unsigned value3) {
  return syscall(SYS_futex, word, op, value, timeout, word2, value3);
}
static int word, other;
static atomic_int returned;

struct Wait {
  int* word;
  int op;
  unsigned value, bits;
};
static void* wait(void* argument) {
  struct Wait* w = argument;
  long result = futex(w->word, w->op, w->value, 0, 0, w->bits);
  returned++;
  return (void*)(result == 0 ? 0l : (long)errno);
}
static long timed(int op, const struct timespec* timeout) {
  long result = futex(&word, op, 0, timeout, 0, FUTEX_BITSET_MATCH_ANY);
  return result == 0 ? 0 : errno;
}

static void waits_that_end_at_once(void) {
  word = 1;
  CHECK(futex(&word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0) == -1 && errno == EAGAIN);
  CHECK(futex(&word, FUTEX_WAIT, 2, 0, 0, 0) == -1 && errno == EAGAIN);
  CHECK(futex(&word, FUTEX_WAIT_BITSET, 2, 0, 0, 1) == -1 && errno == EAGAIN);
  CHECK(futex(&word, FUTEX_WAIT_BITSET, 1, 0, 0, 0) == -1 && errno == EINVAL);
  CHECK(futex(&word, FUTEX_WAKE_BITSET, 1, 0, 0, 0) == -1 && errno == EINVAL);
  CHECK(futex((char*)&word + 1, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0) == -1 && errno == EINVAL);
  CHECK(futex((void*)8, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0) == -1 && errno == EFAULT);
  CHECK(futex((void*)8, FUTEX_WAIT, 0, 0, 0, 0) == -1 && errno == EFAULT);
  CHECK(futex(&word, 63, 0, 0, 0, 0) == -1 && errno == ENOSYS);
  struct timespec bad = {0, 1000000000};
  CHECK(futex(&word, FUTEX_WAIT_PRIVATE, 1, &bad, 0, 0) == -1 && errno == EINVAL);
  bad = (struct timespec){-1, 0};
  CHECK(futex(&word, FUTEX_WAIT_PRIVATE, 1, &bad, 0, 0) == -1 && errno == EINVAL);
  CHECK(futex(&word, FUTEX_WAIT_PRIVATE, 1, (void*)8, 0, 0) == -1 && errno == EFAULT);
  CHECK(futex(&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) == 0);
  CHECK(futex(&word, FUTEX_WAKE, INT_MAX, 0, 0, 0) == 0);
  said("at once");
}

static void timeouts(void) {
  word = 0;
  struct timespec time = {0, 3000000};
  int64_t before = now_ns(CLOCK_MONOTONIC);
  CHECK(timed(FUTEX_WAIT_PRIVATE, &time) == ETIMEDOUT);
  CHECK(now_ns(CLOCK_MONOTONIC) - before >= 3000000);
  time = (struct timespec){0, 0};
  CHECK(timed(FUTEX_WAIT, &time) == ETIMEDOUT);
  time = after_us(CLOCK_MONOTONIC, 3000);
  CHECK(timed(FUTEX_WAIT_BITSET_PRIVATE, &time) == ETIMEDOUT);
  time = after_us(CLOCK_REALTIME, 3000);
  CHECK(timed(FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, &time) == ETIMEDOUT);
  time = (struct timespec){1, 0};  // long ago
  CHECK(timed(FUTEX_WAIT_BITSET, &time) == ETIMEDOUT);
  CHECK(timed(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, &time) == ETIMEDOUT);
  said("timeouts");
}

static void wakes(int private) {
  struct Wait w = {&word, FUTEX_WAIT | private, 0, 0};
  pthread_t threads[5];
  word = 0, returned = 0;
  for (int i = 0; i < 5; i++) threads[i] = start(wait, &w);
  int woken = 0, two;
  // Two at most, until both kinds of answer have come.
  while ((two = (int)futex(&word, FUTEX_WAKE | private, 2, 0, 0, 0)) == 0) sched_yield();
  CHECK(two == 1 || two == 2);
  woken += two;
  while (woken < 5) {
    int n = (int)futex(&word, FUTEX_WAKE | private, INT_MAX, 0, 0, 0);
    CHECK(n >= 0 && n <= 5 - woken);
    woken += n;
    if (n == 0) sched_yield();
  }
  for (int i = 0; i < 5; i++) CHECK(join(threads[i]) == 0);
  CHECK(returned == 5 && futex(&word, FUTEX_WAKE | private, 9, 0, 0, 0) == 0);
  said(private ? "wake private" : "wake shared");
}

static void bitsets(void) {
  struct Wait a = {&word, FUTEX_WAIT_BITSET_PRIVATE, 0, 1}, b = {&word, FUTEX_WAIT_BITSET_PRIVATE, 0, 6};
  word = 0;
  pthread_t first = start(wait, &a), second = start(wait, &b);
  CHECK(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, 0, 8) == 0);
  while (futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, 0, 4) != 1) sched_yield();
  CHECK(join(second) == 0);
  CHECK(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, 0, 6) == 0);
  while (futex(&word, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0) != 1) sched_yield();  // plain WAKE matches any bit
  CHECK(join(first) == 0);
  said("bitsets");
}

// Waits until `n` threads sleep on `word`: moves them to `other` and back.
static void all_asleep(int n) {
  int there = 0;
  while (there < n) {
    there += (int)futex(&word, FUTEX_REQUEUE_PRIVATE, 0, (void*)(long)INT_MAX, &other, 0);
    sched_yield();
  }
  CHECK(futex(&other, FUTEX_REQUEUE_PRIVATE, 0, (void*)(long)INT_MAX, &word, 0) == n);
}

static void requeue(void) {
  struct Wait w = {&word, FUTEX_WAIT_PRIVATE, 0, 0};
  pthread_t threads[6];
  word = 0, other = 7, returned = 0;
  for (int i = 0; i < 6; i++) threads[i] = start(wait, &w);
  all_asleep(6);
  CHECK(returned == 0);
  CHECK(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void*)2, &other, 1) == -1 && errno == EAGAIN);
  // One is woken, two are moved: 3.
  CHECK(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void*)2, &other, 0) == 3);
  CHECK(futex(&other, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0) == 2);
  // REQUEUE: one is woken, one moved; in all 2. One stays.
  CHECK(futex(&word, FUTEX_REQUEUE_PRIVATE, 1, (void*)1, &other, 0) == 2);
  CHECK(futex(&word, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0) == 1);
  CHECK(futex(&other, FUTEX_WAKE_PRIVATE, 9, 0, 0, 0) == 1);
  for (int i = 0; i < 6; i++) CHECK(join(threads[i]) == 0);
  CHECK(returned == 6);
  said("requeue");
}

static long wake_op(int op, int argument, int compare, int with) {
  return futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void*)1, &other, FUTEX_OP(op, argument, compare, with));
}
static void wake_ops(void) {
  word = 0;
  static const struct {
    int op, argument, before, after;
  } table[] = {{FUTEX_OP_SET, 5, 9, 5},
               {FUTEX_OP_ADD, 5, 9, 14},
               {FUTEX_OP_ADD, -3, 9, 6},
               {FUTEX_OP_OR, 6, 9, 15},
               {FUTEX_OP_ANDN, 8, 9, 1},
               {FUTEX_OP_XOR, 3, 9, 10},
               {FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT, 5, 9, 41}};
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    other = table[i].before;
    CHECK(wake_op(table[i].op, table[i].argument, FUTEX_OP_CMP_EQ, 0) == 0);
    CHECK(other == table[i].after);
  }
  // A thread on each word; the second is woken if the old value compares.
  for (int hit = 0; hit < 2; hit++) {
    struct Wait w = {&word, FUTEX_WAIT_PRIVATE, 0, 0};
    pthread_t threads[2];
    word = 0, other = 3;
    for (int i = 0; i < 2; i++) threads[i] = start(wait, &w);
    all_asleep(2);
    CHECK(futex(&word, FUTEX_REQUEUE_PRIVATE, 0, (void*)1, &other, 0) == 1);
    CHECK(wake_op(FUTEX_OP_SET, 4, FUTEX_OP_CMP_GT, hit ? 2 : 3) == 1 + hit);
    CHECK(other == 4);
    CHECK(futex(&other, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) == !hit);
    for (int i = 0; i < 2; i++) CHECK(join(threads[i]) == 0);
  }
  CHECK(futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void*)1, (void*)8, FUTEX_OP(0, 1, 0, 0)) == -1 && errno == EFAULT);
  said("wake op");
}

// Signals: WAIT without a timeout is restarted if SA_RESTART, else EINTR; with a timeout it is EINTR or restarted with
// the rest.
static atomic_int handled;
static void handler(int signo) { handled++; }
static void interrupted(void) {
  struct Wait w = {&word, FUTEX_WAIT_PRIVATE, 0, 0};
  for (int restart = 0; restart < 2; restart++) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    word = 0, handled = 0, returned = 0;
    pthread_t thread = start(wait, &w);
    all_asleep(1);
    pthread_kill(thread, SIGUSR1);
    while (handled == 0) sched_yield();
    if (restart) {
      all_asleep(1);
      CHECK(returned == 0);
      CHECK(futex(&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) == 1);
      CHECK(join(thread) == 0);
    } else {
      CHECK(join(thread) == EINTR);
    }
  }
  said("interrupted");
}

// Two mappings of the same page: what sleeps at one address is woken through the other.
static void two_addresses(void) {
  int fd = (int)syscall(SYS_memfd_create, "words", 0);
  CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
  int* a = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int* b = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(a != MAP_FAILED && b != MAP_FAILED && a != b);
  struct Wait w = {&a[5], FUTEX_WAIT, 0, 0};
  pthread_t thread = start(wait, &w);
  CHECK(futex(&b[6], FUTEX_WAKE, 9, 0, 0, 0) == 0);
  while (futex(&b[5], FUTEX_WAKE, 9, 0, 0, 0) != 1) sched_yield();
  CHECK(join(thread) == 0);
  said("two addresses");
}

int main(void) {
  waits_that_end_at_once();
  timeouts();
  wakes(FUTEX_PRIVATE_FLAG);
  wakes(0);
  bitsets();
  requeue();
  wake_ops();
  interrupted();
  two_addresses();
  return 0;
}
