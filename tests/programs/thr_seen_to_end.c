// A thread waits for another process, which waits until another thread has ended: that must not need the turn
// of anybody.
#include <sys/wait.h>

#include "thr.h"

static int orders[2], ended[2], go[2];
static int tid;

static void* until_told(void* unused) {
  char byte;
  tid = (int)syscall(SYS_gettid);
  CHECK(write(ended[1], "r", 1) == 1);
  CHECK(read(go[0], &byte, 1) == 1);
  return 0;
}

static void watch(int parent) {
  char path[64];
  int whom;
  while (read(orders[0], &whom, sizeof whom) == sizeof whom) {
    snprintf(path, sizeof path, "/proc/%d/task/%d", parent, whom);
    while (access(path, F_OK) == 0) usleep(1000);
    CHECK(write(ended[1], "e", 1) == 1);
  }
  _exit(0);
}

int main(void) {
  char byte;
  CHECK(pipe(orders) == 0 && pipe(ended) == 0 && pipe(go) == 0);
  const int me = getpid(), watcher = fork();
  if (watcher == 0) {
    close(orders[1]);
    watch(me);
  }
  for (int i = 0; i < 5; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, until_told, 0) == 0);
    CHECK(read(ended[0], &byte, 1) == 1 && byte == 'r');
    CHECK(write(orders[1], &tid, sizeof tid) == sizeof tid);
    CHECK(write(go[1], "x", 1) == 1);
    CHECK(read(ended[0], &byte, 1) == 1 && byte == 'e');
    CHECK(pthread_join(thread, 0) == 0);
  }
  close(orders[1]);
  CHECK(waitpid(watcher, 0, 0) == watcher);
  printf("seen to end\n");
  return 0;
}
