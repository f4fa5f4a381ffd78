// Bugs that ordinary scheduling hides; ends with 1 if the bug was met, with 0 if not.
//   thr_chaos twice      two threads make a thing if it is not there yet; both may find that it is not
//   thr_chaos lost       a waiter that checks, then sleeps: the wake-up may come in between
//   thr_chaos handler    a call ends with EINTR because there is a handler, which has never run
//   thr_chaos handled    … which has
//   thr_chaos order      main uses what a thread sets first thing, after sleeping long enough
#include <errno.h>
#include <semaphore.h>
#include <signal.h>

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

static void on_signal(int signo) {
  (void)signo;
}
static int ends[2];
static void* gives(void* argument) {
  for (int i = 0; i < 200; i++) {
    sleep_us(20);
    CHECK(write(ends[1], "x", 1) == 1);
  }
  return 0;
}
static int handler(int runs) {
  struct sigaction action = {.sa_handler = on_signal};
  CHECK(sigaction(SIGUSR1, &action, 0) == 0 && pipe(ends) == 0);
  if (runs) raise(SIGUSR1);
  pthread_t thread = start(gives, 0);
  int interrupted = 0;
  char byte;
  for (int got = 0; got < 200;) {
    long n = read(ends[0], &byte, 1);
    CHECK(n == 1 || errno == EINTR);
    n == 1 ? got++ : interrupted++;
  }
  join(thread);
  return interrupted > 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "twice";
  int found = !strncmp(what, "handle", 6) ? handler(!strcmp(what, "handled"))
              : !strcmp(what, "order")    ? order()
              : !strcmp(what, "lost")     ? lost()
                                          : twice();
  puts(found ? "found" : "not found");
  return found;
}
