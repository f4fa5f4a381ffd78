// Timers and threads: alarm and the three interval timers, POSIX timers that signal the process, one thread
// (SIGEV_THREAD_ID) or start threads (SIGEV_THREAD), with their values. Counts only: how many fit in a time says nothing.
#include <semaphore.h>
#include <sys/time.h>

#include "thr.h"

static atomic_int hits[3], wrong;
static __thread int me = -1;

static void plain(int signo) { hits[0]++; }
static void* spin_until(void* argument) {
  while (hits[0] < 5) compute(100);
  return 0;
}
static void interval(int which, int signo) {
  struct sigaction action = {.sa_handler = plain, .sa_flags = SA_RESTART};
  CHECK(sigaction(signo, &action, 0) == 0);
  hits[0] = 0;
  struct itimerval time = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}}, left;
  pthread_t thread = start(spin_until, 0);
  CHECK(setitimer(which, &time, 0) == 0);
  join(thread);
  CHECK(setitimer(which, &none, &left) == 0);
  CHECK(left.it_interval.tv_usec >= 1000 && left.it_interval.tv_usec <= 20000);
  CHECK(getitimer(which, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0);
}

static void with_value(int signo, siginfo_t* info, void* context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_int != me) {
    wrong++;
    return;
  }
  hits[me]++;
}
// Each thread has its own timer, all with the same signal.
static void* own_timer(void* argument) {
  me = (int)(long)argument;
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = me};
  event._sigev_un._tid = my_tid();
  CHECK(timer_create(me == 2 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec time = {{0, 1000000}, {0, 1000000}}, now;
  CHECK(timer_settime(timer, 0, &time, 0) == 0);
  while (hits[me] < 8) {
    if (me == 0) usleep(300);
    if (me == 1) getppid();
    if (me == 2) compute(100);
  }
  CHECK(timer_gettime(timer, &now) == 0 && now.it_interval.tv_nsec == 1000000);
  CHECK(timer_getoverrun(timer) >= 0 && timer_delete(timer) == 0);
  return 0;
}

static sem_t called;
static pthread_t main_thread;
static atomic_int in_main, values;
static void notify(union sigval value) {
  if (pthread_equal(pthread_self(), main_thread)) in_main++;
  values += value.sival_int;
  sem_post(&called);
}

int main(void) {
  struct sigaction action = {.sa_handler = plain};
  CHECK(sigaction(SIGALRM, &action, 0) == 0);
  CHECK(alarm(100) == 0 && alarm(0) > 90);
  CHECK(ualarm(2000, 0) == 0);
  while (hits[0] == 0) sched_yield();
  said("alarm");
  interval(ITIMER_REAL, SIGALRM);
  interval(ITIMER_VIRTUAL, SIGVTALRM);
  interval(ITIMER_PROF, SIGPROF);
  said("interval timers");

  hits[0] = hits[1] = hits[2] = 0;
  action = (struct sigaction){.sa_sigaction = with_value, .sa_flags = SA_SIGINFO | SA_RESTART};
  CHECK(sigaction(SIGRTMIN, &action, 0) == 0);
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) threads[i] = start(own_timer, (void*)i);
  for (int i = 0; i < 3; i++) join(threads[i]);
  printf("own timers %d, wrong %d\n", hits[0] >= 8 && hits[1] >= 8 && hits[2] >= 8, wrong);

  main_thread = pthread_self();
  sem_init(&called, 0, 0);
  timer_t timers[2];
  for (int i = 0; i < 2; i++) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify,
                             .sigev_value.sival_int = i ? 100 : 1};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timers[i]) == 0);
    struct itimerspec time = {{0, 0}, {0, 1000000}};
    CHECK(timer_settime(timers[i], 0, &time, 0) == 0);
  }
  for (int i = 0; i < 2; i++)
    while (sem_wait(&called) != 0) CHECK(errno == EINTR);
  printf("threads called %d, in main %d\n", values, in_main);
  for (int i = 0; i < 2; i++) CHECK(timer_delete(timers[i]) == 0);

  timer_t quiet;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  CHECK(timer_create(CLOCK_REALTIME, &event, &quiet) == 0);
  struct itimerspec time = {{0, 0}, {100, 0}}, now;
  CHECK(timer_settime(quiet, 0, &time, 0) == 0 && timer_gettime(quiet, &now) == 0 && now.it_value.tv_sec > 90);
  CHECK(timer_delete(quiet) == 0 && timer_delete(quiet) == -1 && errno == EINVAL);
  said("quiet timer");
  return 0;
}
