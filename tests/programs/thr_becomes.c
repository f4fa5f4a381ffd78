// A program whose threads are just coming out of calls that waited when it becomes another one (itself),
// again and again: nothing of that reaches the next one. Before, the kernel refuses: then they go on.
#include <signal.h>
#include <time.h>

#include "thr.h"

enum { kThreads = 8, kLong = 1 << 17 };  // bytes of one argument; 128 KB is too long
static volatile int rounds[kThreads];

static void* waits(void* argument) {
  long n = (long)argument;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  sigaddset(&none, SIGUSR2);
  if (n % 2) pthread_sigmask(SIG_BLOCK, &all, 0);  // nothing that comes to the process goes to such a one
  struct timespec brief = {0, 20000 + n * 9000};
  for (;; rounds[n]++) CHECK(sigtimedwait(&none, 0, &brief) < 0);
  return 0;
}

int main(int argc, char** argv) {
  int left = argc > 1 ? atoi(argv[1]) : 100;
  if (left == 0) {
    printf("the last one\n");
    return 0;
  }
  for (long n = 0; n < kThreads; n++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, waits, (void*)n) == 0);
  }
  usleep(1000 + left % 7 * 300);
  if (left % 4 == 0) {
    char* many[] = {argv[0], malloc(kLong + 1), 0};
    memset(many[1], 'x', kLong);
    many[1][kLong] = 0;
    CHECK(execv("/proc/self/exe", many) < 0 && errno == E2BIG);
    for (int n = 0; n < kThreads; n++)
      for (int before = rounds[n]; rounds[n] == before;) usleep(100);
  }
  char next[20];
  snprintf(next, sizeof next, "%d", left - 1);
  execl("/proc/self/exe", argv[0], next, (char*)0);
  CHECK(!"it became another one");
  return 0;
}
