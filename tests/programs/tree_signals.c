// No signal gets lost when processes are made: SIGCHLD of a child of vfork that ends before its parent goes on, and a
// signal to a child that has only just begun.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static volatile int seen;
static void count(int signo) { seen++; }

int main(void) {
  int status;
  signal(SIGCHLD, count);
  for (int i = 0; i < 20; i++) {
    const int before = seen;
    pid_t pid = vfork();
    if (pid == 0) _exit(0);
    for (int k = 0; k < 1000 && seen == before; k++) usleep(1000);
    CHECK(seen > before);
    CHECK(waitpid(pid, &status, 0) == pid);
  }
  signal(SIGCHLD, SIG_DFL);
  for (int i = 0; i < 20; i++) {
    pid_t pid = fork();
    if (pid == 0)
      for (;;) pause();
    CHECK(kill(pid, i % 2 ? SIGTERM : SIGUSR1) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == (i % 2 ? SIGTERM : SIGUSR1));
  }
  // A child inherits handlers, but not what is pending for its parent.
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  signal(SIGUSR2, count);
  sigprocmask(SIG_BLOCK, &set, &old);
  raise(SIGUSR2);
  seen = 0;
  pid_t pid = fork();
  sigprocmask(SIG_SETMASK, &old, NULL);
  if (pid == 0) {
    const int pending = seen;
    raise(SIGUSR2);
    _exit(10 * pending + seen);
  }
  CHECK(seen == 1);
  CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 1);
  puts("done");
  return 0;
}
