// pthread_cancel: of threads that sleep in every kind of call, of one that computes (asynchronous), of one that asks
// (testcancel), and of one that has cancellation disabled for a while. Clean-up functions run in order, locks come back.
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>

#include "thr.h"

static int pipes[2], listener;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static atomic_int ready, cleaned;

static void clean(void* argument) { cleaned = cleaned * 10 + (int)(long)argument; }
static void* sleeps_forever(void* argument) {
  for (;;) sleep_us(1000000);
  return 0;
}

static void* blocked(void* argument) {
  char byte;
  pthread_cleanup_push(clean, (void*)2);
  pthread_cleanup_push(clean, (void*)1);
  if ((long)argument != 4) ready = 1;
  switch ((long)argument) {
    case 0: read(pipes[0], &byte, 1); break;
    case 1: poll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, -1); break;
    case 2: accept(listener, 0, 0); break;
    case 3: sem_wait(&semaphore); break;
    case 4:
      pthread_mutex_lock(&mutex);
      ready = 1;
      // The mutex is ours again when the clean-up runs.
      pthread_cleanup_push((void (*)(void*))pthread_mutex_unlock, &mutex);
      for (;;) pthread_cond_wait(&condition, &mutex);
      pthread_cleanup_pop(0);
      break;
    case 5: sleep(1000); break;
    case 6: {
      fd_set set;
      FD_ZERO(&set);
      FD_SET(pipes[0], &set);
      select(pipes[0] + 1, &set, 0, 0, 0);
      break;
    }
    case 7: {
      int epoll = epoll_create1(0);
      struct epoll_event event;
      epoll_wait(epoll, &event, 1, -1);
      break;
    }
    case 8: pause(); break;
    case 9: {
      sigset_t set;
      int signo;
      sigemptyset(&set);
      sigaddset(&set, SIGUSR2);
      sigwait(&set, &signo);
      break;
    }
    case 10: recv(socket(AF_INET, SOCK_DGRAM, 0), &byte, 1, 0); break;
    case 11: {
      char* page = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      while (write(pipes[1], page, 1 << 20) > 0) {  // fills the pipe and sleeps
      }
      break;
    }
    case 12: sigsuspend(&(sigset_t){{0}}); break;
    case 13:
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
      for (;;) compute(10);
    case 14:
      for (;;) {
        compute(1000);
        pthread_testcancel();
      }
    case 15: {
      pthread_t other = start(sleeps_forever, 0);
      pthread_join(other, 0);
      break;
    }
  }
  CHECK(!"goes on after being cancelled");
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return 0;
}

static atomic_int cancelled;
static void* disabled(void* argument) {
  int old;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
  ready = 1;
  while (!cancelled) sched_yield();
  sleep_us(1000);  // a cancellation point, but disabled
  ready = 2;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
  pthread_testcancel();
  CHECK(!"cannot be");
  return 0;
}

int main(void) {
  static const char* names[] = {"read",       "poll",      "accept", "sem_wait", "cond_wait", "sleep",
                                "select",     "epoll",     "pause",  "sigwait",  "recv",      "write",
                                "sigsuspend", "computing", "asking", "join"};
  CHECK(pipe(pipes) == 0);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(listener >= 0 && listen(listener, 1) == 0);
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  for (long i = 0; i < 16; i++)
    for (int late = 0; late < 2; late++) {
      ready = 0, cleaned = 0;
      pthread_t thread = start(blocked, (void*)i);
      while (!ready) sched_yield();
      // Once perhaps before the call, once very likely in it.
      if (late) sleep_us(2000);
      OK0(pthread_cancel(thread));
      CHECK(join(thread) == (long)PTHREAD_CANCELED);
      CHECK(cleaned == 12);
      if (late) printf("cancelled in %s\n", names[i]);
      OK0(pthread_mutex_lock(&mutex));
      OK0(pthread_mutex_unlock(&mutex));
    }
  ready = 0;
  pthread_t thread = start(disabled, 0);
  while (!ready) sched_yield();
  OK0(pthread_cancel(thread));
  cancelled = 1;
  CHECK(join(thread) == (long)PTHREAD_CANCELED && ready == 2);
  said("disabled");
  return 0;
}
