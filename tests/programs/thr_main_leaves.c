// main ends with pthread_exit; the others go on, and the process ends with status 0 when the last of them ends. atexit
// functions run in that last thread.
#include "thr.h"

static pthread_t main_thread;
static pid_t main_tid;

static void at_exit(void) { puts(my_tid() == main_tid ? "exit in main" : "exit in the last thread"); }

static void* goes_on(void* argument) {
  // Waits until main is gone.
  CHECK(join(main_thread) == 77);
  printf("main is gone, tid %s\n", my_tid() == getpid() ? "is the pid" : "is not the pid");
  compute(100000);
  puts("still here");
  return (void*)5l;
}
static void cleanup(void* argument) { puts(argument); }

int main(void) {
  main_thread = pthread_self();
  main_tid = my_tid();
  CHECK(main_tid == getpid());
  atexit(at_exit);
  start(goes_on, 0);
  pthread_cleanup_push(cleanup, "cleanup in main");
  fflush(stdout);
  pthread_exit((void*)77);
  pthread_cleanup_pop(0);
}
