// Two locks taken in two orders.
//   thr_deadlock sure      both threads have one and want the other; SIGALRM kills
//   thr_deadlock told      likewise, and a handler of SIGALRM says who has what and ends with 5
//   thr_deadlock maybe     a race: whether, and after how many rounds, it happens
#include <sys/time.h>

#include "thr.h"

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t barrier;
static volatile int owner[2] = {-1, -1}, done[2];
static int sure, rounds;

static void* thread(void* argument) {
  int me = (int)(long)argument;
  for (int i = 0; i < rounds; i++) {
    pthread_mutex_lock(&locks[me]);
    owner[me] = me;
    if (sure) pthread_barrier_wait(&barrier);
    compute((uint64_t)i % 50);
    pthread_mutex_lock(&locks[!me]);
    owner[!me] = me;
    done[me]++;
    pthread_mutex_unlock(&locks[!me]);
    pthread_mutex_unlock(&locks[me]);
  }
  return 0;
}
static void tell(int signo) {
  char line[100];
  int n = snprintf(line, sizeof line, "lock 0 has %d, lock 1 has %d, done %d and %d\n", owner[0], owner[1], done[0], done[1]);
  write(1, line, (size_t)n);
  _exit(5);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "maybe";
  sure = strcmp(how, "maybe") != 0;
  rounds = sure ? 1 : 20000;
  if (strcmp(how, "sure")) CHECK(signal(SIGALRM, tell) != SIG_ERR);
  struct itimerval time = {{0, 0}, {0, 150000}};
  CHECK(setitimer(ITIMER_REAL, &time, 0) == 0);
  pthread_barrier_init(&barrier, 0, 2);
  pthread_t threads[2] = {start(thread, (void*)0), start(thread, (void*)1)};
  puts("started");
  fflush(stdout);
  join(threads[0]), join(threads[1]);
  time = (struct itimerval){{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &time, 0) == 0);
  printf("done %d and %d\n", done[0], done[1]);
  return 0;
}
