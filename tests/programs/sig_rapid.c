// Timers that come again faster than a handler can end (and natively, too, are stopped by their handlers
// only): each signal that is taken makes room for the next one. With and without other signals that are
// queued with the same number.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kStack = 65536 };
static timer_t timer;
static volatile int left, queued, last;

static void stop(void) {
  struct itimerspec never = {{0, 0}, {0, 0}};
  CHECK(timer_settime(timer, 0, &never, 0) == 0);
}
static void again(int signo, siginfo_t* info, void* unused) {
  if (info->si_code == SI_QUEUE) {
    // Those of one sender keep their order.
    CHECK(info->si_value.sival_int == last + 1);
    last = info->si_value.sival_int;
    queued++;
    return;
  }
  CHECK(info->si_code == SI_TIMER);
  if (left > 0 && --left == 0) stop();
}

static void run(int signo, int others, int round) {
  struct sigaction action = {.sa_sigaction = again, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signo};
  CHECK(sigaction(signo, &action, 0) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  sigset_t all, none;
  sigfillset(&all);
  left = 1 + round % 20;
  queued = last = 0;
  struct itimerspec rapid = {{0, 1000}, {0, 1 + round % 10 * 300}};
  CHECK(timer_settime(timer, 0, &rapid, 0) == 0);
  for (int n = 1; n <= others; n++) CHECK(sigqueue(getpid(), signo, (union sigval){n}) == 0);
  while (left) {
    struct timespec while_away = {0, 1000};
    nanosleep(&while_away, 0);
    sigprocmask(SIG_SETMASK, &all, &none);
    if (left) sigsuspend(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
  }
  CHECK(queued == others && timer_delete(timer) == 0);
}

// Each in a process of its own, with handlers on a stack that it shares with the other: there a signal takes
// longer.
static void rounds(const char* name, int signo, int others) {
  char* stack = mmap(0, kStack, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED);
  for (int round = 0; round < 15; round++) {
    pid_t child = fork();
    if (child == 0) {
      stack_t ours = {.ss_sp = stack, .ss_size = kStack};
      CHECK(sigaltstack(&ours, 0) == 0);
      run(signo, others, round);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    memset(stack, round, kStack);
  }
  printf("%s ok\n", name);
}

int main(void) {
  rounds("a timer", SIGRTMIN, 0);
  rounds("a timer with a plain signal", SIGALRM, 0);
  rounds("a timer and others in the same queue", SIGRTMIN, 5);
  return 0;
}
