// Signals that wake up a process that goes to sleep at that moment: a timer's through the self-pipe, SIGCHLD's through
// poll, and such that are blocked a moment after they came.
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static int own[2];
static volatile int order[64], count;

static void wake(int signo) {
  int before = errno;
  CHECK(write(own[1], "x", 1) == 1);
  errno = before;
}
static void note(int signo, siginfo_t* info, void* unused) { order[count++] = info->si_value.sival_int; }

static void self_pipe(void) {
  signal(SIGALRM, wake);
  for (int i = 0; i < 3000; i++) {
    // Just as long as it takes to come to the call, or a bit longer.
    struct itimerval soon = {{0, 0}, {0, 1 + i % 20}};
    CHECK(setitimer(ITIMER_REAL, &soon, 0) == 0);
    char byte;
    while (read(own[0], &byte, 1) != 1) CHECK(errno == EINTR);
  }
  printf("self-pipe ok\n");
}

static void children(void) {
  signal(SIGCHLD, wake);
  for (int i = 0; i < 300; i++) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    struct pollfd p = {own[0], POLLIN, 0};
    while (poll(&p, 1, -1) != 1) CHECK(errno == EINTR);
    char byte;
    CHECK(read(own[0], &byte, 1) == 1 && waitpid(child, 0, 0) == child);
  }
  signal(SIGCHLD, SIG_DFL);
  printf("children ok\n");
}

// Blocked ones are the kernel's: in order, and seen by all that ask for them.
static void blocked(void) {
  sigset_t set, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  sigaction(SIGRTMIN, &action, 0);
  for (int i = 0; i < 200; i++) {
    count = 0;
    pid_t me = getpid(), child = fork();
    if (child == 0) {
      for (int n = 1; n <= 5; n++) sigqueue(me, SIGRTMIN, (union sigval){n});
      _exit(0);
    }
    struct timespec moment = {0, i * 2000};
    nanosleep(&moment, 0);
    sigprocmask(SIG_BLOCK, &set, 0);
    int seen = count;
    while (waitpid(child, 0, 0) != child) CHECK(errno == EINTR);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGRTMIN) == (seen < 5));
    for (int n = seen + 1; n <= 5; n++) {
      siginfo_t info;
      CHECK(sigwaitinfo(&set, &info) == SIGRTMIN && info.si_value.sival_int == n);
    }
    for (int n = 0; n < seen; n++) CHECK(order[n] == n + 1);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    CHECK(count == seen);
  }
  printf("blocked ok\n");
}

int main(void) {
  CHECK(pipe(own) == 0);
  self_pipe();
  children();
  blocked();
}
