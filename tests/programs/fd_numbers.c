// The kernel gives out the lowest number that is free, and any that is asked for. A recorder's own
// descriptors are nowhere among them: not above the limit that the program began with, when it has raised
// that, and not far above what it has. Started with a limit of 64 that may be raised to 6,000. "few": with
// one of 40 that may not be raised.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kMost = 5000 };

// Opens descriptors in all ways until `most` is the next number. Which numbers are left out?
static void open_up_to(int most, const char* who) {
  int next = dup(0), way = 0, pair[2];
  close(next);
  while (next < most) {
    int fd = -1;
    switch (way++ % 6) {
      case 0:
        fd = open("/dev/null", O_RDONLY);
        break;
      case 1:
        fd = dup(0);
        break;
      case 2:
        fd = eventfd(0, 0);
        break;
      case 3:
        fd = fcntl(0, F_DUPFD, 3);
        break;
      case 4:
        CHECK(pipe(pair) == 0);
        if (pair[0] != next) printf("%s: %d instead of %d\n", who, pair[0], next);
        next = pair[0] + 1, fd = pair[1];
        break;
      default:
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        if (pair[0] != next) printf("%s: %d instead of %d\n", who, pair[0], next);
        next = pair[0] + 1, fd = pair[1];
    }
    CHECK(fd >= 0);
    if (fd != next) printf("%s: %d instead of %d\n", who, fd, next);
    next = fd + 1;
  }
  printf("%s: up to %d\n", who, most);
  fflush(stdout);
}

static void close_all(void) {
  for (int fd = 3; fd < kMost + 10; fd++) close(fd);
}

static void ask_for(int from, int to, const char* who) {
  for (int fd = from; fd < to; fd++) {
    if (dup2(0, fd) != fd) printf("%s: dup2 to %d: %s\n", who, fd, strerror(errno));
    if (dup3(1, fd, O_CLOEXEC) != fd) printf("%s: dup3 to %d: %s\n", who, fd, strerror(errno));
    close(fd);
    const int got = fcntl(0, F_DUPFD, fd);
    if (got != fd) printf("%s: F_DUPFD from %d: %d\n", who, fd, got);
    close(got);
  }
  printf("%s: asked for %d to %d\n", who, from, to);
  fflush(stdout);
}

static void* in_thread(void* unused) {
  open_up_to(2600, "a thread");
  return unused;
}

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "few")) {
    ask_for(20, 40, "the last ones");
    return 0;
  }
  if (argc > 1 && !strcmp(argv[1], "shared")) {
    if (syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0) == 0) {
      open_up_to(990, "who shares them");
      _exit(0);
    }
    wait(NULL);
    close_all();
    return 0;
  }
  if (argc > 1) {
    open_up_to(1500, "another program");
    close_all();
    ask_for(990, 1010, "another program");
    return 0;
  }
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64 && limit.rlim_max == 6000);
  ask_for(20, 64, "below the first limit");
  limit.rlim_cur = kMost;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  ask_for(60, 140, "behind the first limit");
  open_up_to(200, "the program");
  if (fork() == 0) {
    open_up_to(1100, "a child");
    _exit(0);
  }
  wait(NULL);
  open_up_to(1200, "the program");
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  open_up_to(4800, "the program");
  close_all();
  ask_for(4000, 4200, "without others");
  open_up_to(1100, "the program");
  execl("/proc/self/exe", argv[0], "again", NULL);
  return 1;
}
