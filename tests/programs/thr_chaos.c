// Bugs that ordinary scheduling hides; ends with 1 if the bug was met, with 0 if not.
//   thr_chaos twice      two threads make a thing if it is not there yet; both may find that it is not
//   thr_chaos lost       a waiter that checks, then sleeps: the wake-up may come in between
//   thr_chaos order      main uses what a thread sets first thing, after sleeping long enough
#include <semaphore.h>

#include "thr.h"

static volatile int made, value;
static atomic_int instances;
static sem_t semaphore;

static void* makes(void* argument) {
  compute(50);
  if (!made) {
    compute(300);
    instances++;
    made = 1;
  }
  compute(50);
  return 0;
}
static int twice(void) {
  pthread_t threads[2] = {start(makes, 0), start(makes, 0)};
  join(threads[0]), join(threads[1]);
  return instances > 1;
}

static void* sets(void* argument) {
  compute(100);
  value = 42;
  sem_post(&semaphore);
  return 0;
}
static int order(void) {
  sem_init(&semaphore, 0, 0);
  pthread_t thread = start(sets, 0);
  sleep_us(3000);
  int seen = value;
  while (sem_wait(&semaphore) != 0) {
  }
  join(thread);
  return seen != 42;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int ready;
static atomic_int missed;
static void* waits(void* argument) {
  if (!ready) {  // without the lock
    compute(100);
    pthread_mutex_lock(&mutex);
    struct timespec until = after_us(CLOCK_REALTIME, 30000);
    if (pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT) missed = 1;
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
static int lost(void) {
  pthread_t thread = start(waits, 0);
  compute(100);
  ready = 1;
  pthread_mutex_lock(&mutex);
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  join(thread);
  return missed;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "twice";
  int found = !strcmp(what, "order") ? order() : !strcmp(what, "lost") ? lost() : twice();
  puts(found ? "found" : "not found");
  return found;
}
