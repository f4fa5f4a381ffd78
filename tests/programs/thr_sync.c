// The ways of waiting of pthreads: mutexes of every type, condition variables, reader-writer locks, barriers,
// semaphores, spin locks, once. Each with contention, and with its timeout.
#include <semaphore.h>

#include "thr.h"

enum { kThreads = 4, kRounds = 3000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static void* lock_and_count(void* argument) {
  for (int i = 0; i < kRounds; i++) {
    OK0(pthread_mutex_lock(argument));
    long seen = counter;
    if (i % 64 == 0) compute(50);
    counter = seen + 1;
    OK0(pthread_mutex_unlock(argument));
  }
  return 0;
}
static void count_with(pthread_mutex_t* lock, const char* name) {
  pthread_t threads[kThreads];
  counter = 0;
  for (int i = 0; i < kThreads; i++) threads[i] = start(lock_and_count, lock);
  for (int i = 0; i < kThreads; i++) join(threads[i]);
  printf("%s %ld\n", name, counter);
}
static void* try_lock(void* lock) { return (void*)(long)pthread_mutex_trylock(lock); }
static void* try_long(void* lock) {
  struct timespec until = after_us(CLOCK_REALTIME, 3000);
  long result = pthread_mutex_timedlock(lock, &until);
  until = after_us(CLOCK_MONOTONIC, 3000);
  CHECK(pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until) == result);
  return (void*)result;
}
static void* unlock_it(void* lock) { return (void*)(long)pthread_mutex_unlock(lock); }
static void mutexes(void) {
  static const struct {
    int type;
    const char* name;
  } types[] = {{PTHREAD_MUTEX_NORMAL, "normal"},
               {PTHREAD_MUTEX_RECURSIVE, "recursive"},
               {PTHREAD_MUTEX_ERRORCHECK, "errorcheck"},
               {PTHREAD_MUTEX_ADAPTIVE_NP, "adaptive"}};
  for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    OK0(pthread_mutexattr_settype(&attributes, types[i].type));
    OK0(pthread_mutex_init(&lock, &attributes));
    count_with(&lock, types[i].name);
    OK0(pthread_mutex_lock(&lock));
    if (types[i].type == PTHREAD_MUTEX_RECURSIVE) {
      OK0(pthread_mutex_lock(&lock));
      OK0(pthread_mutex_unlock(&lock));
    }
    if (types[i].type == PTHREAD_MUTEX_ERRORCHECK) {
      CHECK(pthread_mutex_lock(&lock) == EDEADLK);
      CHECK(join(start(unlock_it, &lock)) == EPERM);
    }
    CHECK(join(start(try_lock, &lock)) == EBUSY);
    CHECK(join(start(try_long, &lock)) == ETIMEDOUT);
    OK0(pthread_mutex_unlock(&lock));
    OK0(pthread_mutex_destroy(&lock));
  }
}

// A queue of four places between two producers and two consumers.
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int queue[4], queued, taken_at, produced;
static void* producer(void* argument) {
  for (int i = 1; i <= 1000; i++) {
    pthread_mutex_lock(&mutex);
    while (queued == 4) pthread_cond_wait(&not_full, &mutex);
    queue[(taken_at + queued++) % 4] = (int)(long)argument * i;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
static void* consumer(void* argument) {
  long sum = 0;
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (queued == 0 && produced < 2000) pthread_cond_wait(&not_empty, &mutex);
    if (queued == 0) {
      pthread_mutex_unlock(&mutex);
      return (void*)sum;
    }
    sum += queue[taken_at];
    taken_at = (taken_at + 1) % 4;
    queued--;
    if (++produced == 2000) pthread_cond_broadcast(&not_empty);
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&mutex);
  }
}
static void conditions(void) {
  pthread_t p[2] = {start(producer, (void*)1), start(producer, (void*)2)};
  pthread_t c[2] = {start(consumer, 0), start(consumer, 0)};
  join(p[0]), join(p[1]);
  long sum = join(c[0]);
  printf("queue %ld\n", sum + join(c[1]));
  pthread_cond_t condition;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  OK0(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
  OK0(pthread_cond_init(&condition, &attributes));
  pthread_mutex_lock(&mutex);
  struct timespec until = after_us(CLOCK_MONOTONIC, 3000);
  int result;
  while ((result = pthread_cond_timedwait(&condition, &mutex, &until)) == 0) {
  }
  CHECK(result == ETIMEDOUT);
  until = after_us(CLOCK_REALTIME, 3000);
  while ((result = pthread_cond_clockwait(&condition, &mutex, CLOCK_REALTIME, &until)) == 0) {
  }
  CHECK(result == ETIMEDOUT);
  until.tv_nsec = 1000000000;
  CHECK(pthread_cond_timedwait(&condition, &mutex, &until) == EINVAL);
  pthread_mutex_unlock(&mutex);
  OK0(pthread_cond_destroy(&condition));
  said("conditions");
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static long shared_a, shared_b;
static void* reader(void* argument) {
  long sum = 0;
  // Both readers hold the lock at once, or the barrier would never open.
  OK0(pthread_rwlock_rdlock(&rwlock));
  pthread_barrier_wait(&barrier);
  CHECK(pthread_rwlock_trywrlock(&rwlock) == EBUSY || pthread_rwlock_trywrlock(&rwlock) == EDEADLK);
  pthread_barrier_wait(&barrier);
  OK0(pthread_rwlock_unlock(&rwlock));
  for (int i = 0; i < 1000; i++) {
    OK0(pthread_rwlock_rdlock(&rwlock));
    CHECK(shared_a == shared_b);
    sum += shared_a;
    OK0(pthread_rwlock_unlock(&rwlock));
  }
  return (void*)(sum >= 0 ? 0l : 1l);
}
static void* writer(void* argument) {
  for (int i = 0; i < 1000; i++) {
    OK0(pthread_rwlock_wrlock(&rwlock));
    shared_a++;
    if (i % 50 == 0) sched_yield();
    shared_b++;
    OK0(pthread_rwlock_unlock(&rwlock));
  }
  return 0;
}
static void* reads_in_time(void* argument) {
  struct timespec until = after_us(CLOCK_REALTIME, 2000);
  return (void*)(long)pthread_rwlock_timedrdlock(&rwlock, &until);
}
static void rwlocks(void) {
  pthread_barrier_init(&barrier, 0, 2);
  pthread_t threads[4] = {start(reader, 0), start(reader, 0), start(writer, 0), start(writer, 0)};
  for (int i = 0; i < 4; i++) join(threads[i]);
  OK0(pthread_rwlock_wrlock(&rwlock));
  CHECK(join(start(reads_in_time, 0)) == ETIMEDOUT);
  OK0(pthread_rwlock_unlock(&rwlock));
  printf("rwlock %ld %ld\n", shared_a, shared_b);
}

static atomic_int arrived, serial;
static void* meet(void* argument) {
  for (int round = 1; round <= 200; round++) {
    arrived++;
    int result = pthread_barrier_wait(&barrier);
    CHECK(arrived >= round * 5);
    if (result == PTHREAD_BARRIER_SERIAL_THREAD) serial++;
    pthread_barrier_wait(&barrier);
  }
  return 0;
}
static void barriers(void) {
  pthread_t threads[5];
  pthread_barrier_destroy(&barrier);
  pthread_barrier_init(&barrier, 0, 5);
  for (int i = 0; i < 5; i++) threads[i] = start(meet, 0);
  for (int i = 0; i < 5; i++) join(threads[i]);
  printf("barrier %d serial %d\n", arrived, serial);
}

static sem_t ping, pong;
static void* answer(void* argument) {
  for (int i = 0; i < 2000; i++) {
    while (sem_wait(&ping) != 0) CHECK(errno == EINTR);
    sem_post(&pong);
  }
  return 0;
}
static void semaphores(void) {
  CHECK(sem_init(&ping, 0, 0) == 0 && sem_init(&pong, 0, 0) == 0);
  CHECK(sem_trywait(&ping) == -1 && errno == EAGAIN);
  struct timespec until = after_us(CLOCK_REALTIME, 2000);
  CHECK(sem_timedwait(&ping, &until) == -1 && errno == ETIMEDOUT);
  pthread_t thread = start(answer, 0);
  for (int i = 0; i < 2000; i++) {
    sem_post(&ping);
    CHECK(sem_wait(&pong) == 0);
  }
  join(thread);
  int value;
  CHECK(sem_getvalue(&ping, &value) == 0 && value == 0);
  said("semaphores");
}

static pthread_spinlock_t spin;
static void* spin_and_count(void* argument) {
  for (int i = 0; i < 5000; i++) {
    OK0(pthread_spin_lock(&spin));
    counter++;
    OK0(pthread_spin_unlock(&spin));
  }
  return 0;
}
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int times;
static void only_once(void) {
  sleep_us(2000);
  times++;
}
static void* run_once(void* argument) {
  pthread_once(&once, only_once);
  CHECK(times == 1);
  return 0;
}
static void spins_and_once(void) {
  pthread_t threads[4];
  counter = 0;
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  for (int i = 0; i < 4; i++) threads[i] = start(spin_and_count, 0);
  for (int i = 0; i < 4; i++) join(threads[i]);
  printf("spin %ld\n", counter);
  for (int i = 0; i < 4; i++) threads[i] = start(run_once, 0);
  for (int i = 0; i < 4; i++) join(threads[i]);
  printf("once %d\n", times);
}

int main(void) {
  mutexes();
  conditions();
  rwlocks();
  barriers();
  semaphores();
  spins_and_once();
  return 0;
}
