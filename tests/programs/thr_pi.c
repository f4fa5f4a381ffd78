// Priority-inheriting mutexes (FUTEX_LOCK_PI and its family): through pthreads, and by hand with what they return.
#include <linux/futex.h>

#include "thr.h"

static pthread_mutex_t lock;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter;
static int stage;

static void* count(void* argument) {
  for (int i = 0; i < 2000; i++) {
    OK0(pthread_mutex_lock(&lock));
    long seen = counter;
    if (i % 100 == 0) sched_yield();
    counter = seen + 1;
    OK0(pthread_mutex_unlock(&lock));
  }
  return 0;
}
static void* in_time(void* argument) {
  struct timespec until = after_us(CLOCK_REALTIME, 3000);
  CHECK(pthread_mutex_trylock(&lock) == EBUSY);
  return (void*)(long)pthread_mutex_timedlock(&lock, &until);
}
static void* stages(void* argument) {
  OK0(pthread_mutex_lock(&lock));
  for (int i = 0; i < 200; i++) {
    while (stage % 2 != (long)argument) OK0(pthread_cond_wait(&condition, &lock));
    stage++;
    OK0(pthread_cond_broadcast(&condition));
  }
  OK0(pthread_mutex_unlock(&lock));
  return 0;
}

static long futex(int* word, int op, const void* timeout) { return syscall(SYS_futex, word, op, 0, timeout, 0, 0); }
static int word;
static atomic_int holding, release;
static void* hold(void* argument) {
  CHECK(futex(&word, FUTEX_LOCK_PI_PRIVATE, 0) == 0);
  CHECK((word & FUTEX_TID_MASK) == my_tid());
  CHECK(futex(&word, FUTEX_LOCK_PI_PRIVATE, 0) == -1 && errno == EDEADLK);
  holding = 1;
  while (!release) sleep_us(200);
  CHECK(futex(&word, FUTEX_UNLOCK_PI_PRIVATE, 0) == 0);
  return 0;
}
static void* next(void* argument) {
  CHECK(futex(&word, FUTEX_LOCK_PI_PRIVATE, 0) == 0);
  CHECK((word & FUTEX_TID_MASK) == my_tid());
  if (futex(&word, FUTEX_UNLOCK_PI_PRIVATE, 0) != 0) return (void*)(long)errno;
  return 0;
}

// A condition whose waiters are handed over to a lock, as glibc once did it.
static int bell, inner;
static atomic_int waiting, served;
static long requeue(int op, long count, long more, int expected) { return syscall(SYS_futex, &bell, op, count, more, &inner, expected); }
static void* wait_for_bell(void* argument) {
  waiting++;
  CHECK(requeue(FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, 0, 0) == 0);
  CHECK((inner & FUTEX_TID_MASK) == my_tid());
  served++;
  CHECK(futex(&inner, FUTEX_UNLOCK_PI_PRIVATE, 0) == 0);
  return 0;
}
static void hand_over(int held) {
  pthread_t threads[3];
  int all = 0;
  waiting = served = 0;
  if (held) CHECK(futex(&inner, FUTEX_LOCK_PI_PRIVATE, 0) == 0);
  for (int i = 0; i < 3; i++) threads[i] = start(wait_for_bell, 0);
  while (waiting < 3) sched_yield();
  CHECK(requeue(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 2, 99) == -1 && errno == EAGAIN);
  CHECK(requeue(FUTEX_CMP_REQUEUE_PI_PRIVATE, 2, 2, 0) == -1 && errno == EINVAL);
  while (all < 3) {
    long n = requeue(FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, 2, 0);
    CHECK(n >= 0);
    all += n;
    sleep_us(500);
  }
  if (held) {
    CHECK(served == 0 && futex(&inner, FUTEX_UNLOCK_PI_PRIVATE, 0) == 0);
  }
  for (int i = 0; i < 3; i++) CHECK(join(threads[i]) == 0);
  CHECK(served == 3 && (inner & FUTEX_TID_MASK) == 0);
}

int main(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  OK0(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
  for (int type = 0; type < 3; type++) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    OK0(pthread_mutexattr_settype(&attributes, types[type]));
    OK0(pthread_mutex_init(&lock, &attributes));
    counter = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(count, 0);
    for (int i = 0; i < 4; i++) join(threads[i]);
    printf("counted %ld\n", counter);
    OK0(pthread_mutex_lock(&lock));
    if (types[type] == PTHREAD_MUTEX_ERRORCHECK) CHECK(pthread_mutex_lock(&lock) == EDEADLK);
    CHECK(join(start(in_time, 0)) == ETIMEDOUT);
    OK0(pthread_mutex_unlock(&lock));
    stage = 0;
    threads[0] = start(stages, (void*)0), threads[1] = start(stages, (void*)1);
    join(threads[0]), join(threads[1]);
    printf("stages %d\n", stage);
    OK0(pthread_mutex_destroy(&lock));
  }

  pthread_t holder = start(hold, 0);
  while (!holding) sched_yield();
  CHECK(futex(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0) == -1 && errno == EAGAIN);
  CHECK(futex(&word, FUTEX_UNLOCK_PI_PRIVATE, 0) == -1 && errno == EPERM);
  struct timespec until = after_us(CLOCK_REALTIME, 3000);
  CHECK(futex(&word, FUTEX_LOCK_PI_PRIVATE, &until) == -1 && errno == ETIMEDOUT);
  pthread_t waiters[3];
  for (int i = 0; i < 3; i++) waiters[i] = start(next, 0);
  while (!(*(volatile int*)&word & FUTEX_WAITERS)) sched_yield();
  release = 1;
  join(holder);
  for (int i = 0; i < 3; i++) CHECK(join(waiters[i]) == 0);
  CHECK((word & FUTEX_TID_MASK) == 0);
  CHECK(futex(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0) == 0 && (word & FUTEX_TID_MASK) == my_tid());
  CHECK(futex(&word, FUTEX_UNLOCK_PI_PRIVATE, 0) == 0 && word == 0);
  hand_over(0);
  hand_over(1);
  struct timespec late = after_us(CLOCK_MONOTONIC, 2000);
  CHECK(syscall(SYS_futex, &bell, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &late, &inner, 0) == -1 && errno == ETIMEDOUT);
  CHECK(syscall(SYS_futex, &bell, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 1, 0, &inner, 0) == -1 && errno == EAGAIN);
  said("by hand");
  return 0;
}
