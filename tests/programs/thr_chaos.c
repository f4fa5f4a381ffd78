// Bugs that ordinary scheduling hides; ends with 1 if the bug was met, with 0 if not.
//   thr_chaos window     two threads check a flag and set it a few instructions later, once in their short lives
//   thr_chaos order      main uses what a thread sets first thing, after giving it ample time
//   thr_chaos lost       a waiter that checks, then sleeps: the wake-up may come in between
#include <semaphore.h>

#include "thr.h"

static volatile int busy, together, value;
static sem_t semaphore;

static void* enters(void* argument) {
  compute(3000);
  if (!busy) {
    compute(10);
    busy++;
    if (busy > 1) together = 1;
    compute(10);
    busy--;
  }
  compute(3000);
  return 0;
}
static int window(void) {
  pthread_t threads[2] = {start(enters, 0), start(enters, 0)};
  join(threads[0]), join(threads[1]);
  return together;
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
  sleep_us(3000);  // "long enough"
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
    compute(10);
    pthread_mutex_lock(&mutex);
    struct timespec until = after_us(CLOCK_REALTIME, 30000);
    if (pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT) missed = 1;
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
static int lost(void) {
  pthread_t thread = start(waits, 0);
  sleep_us(1000);
  ready = 1;
  pthread_mutex_lock(&mutex);
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  join(thread);
  return missed;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "window";
  int found = !strcmp(what, "order") ? order() : !strcmp(what, "lost") ? lost() : window();
  puts(found ? "found" : "not found");
  return found;
}
