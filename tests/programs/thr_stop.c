// SIGSTOP, SIGTSTP and SIGCONT: a child stops this process, with all its threads, and lets it go on, again and again. Nothing
// is lost, the handler of SIGCONT runs, and waits with a timeout go on.
#include <sys/wait.h>

#include "thr.h"

static atomic_int continued, stop;
static atomic_long progress;
static void go_on(int signo) { continued++; }
static void* counts(void* argument) {
  while (!stop) {
    progress++;
    if (argument) sleep_us(100);
  }
  return 0;
}

int main(void) {
  struct sigaction action = {.sa_handler = go_on, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGCONT, &action, 0) == 0);
  pthread_t threads[2] = {start(counts, 0), start(counts, (void*)1)};
  // SIGTSTP stops only who has somebody to continue it: not a process whose group is orphaned.
  static const int signals[] = {SIGSTOP, SIGSTOP, SIGTSTP};
  for (int i = 0; i < 3; i++) {
    int before = continued;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      pid_t parent = getppid();
      kill(parent, signals[i]);
      usleep(5000);
      kill(parent, SIGCONT);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    while (continued == before) sched_yield();
    long seen = progress;
    while (progress < seen + 10) sched_yield();
  }
  stop = 1;
  join(threads[0]), join(threads[1]);
  printf("continued %d times\n", continued);
  return 0;
}
