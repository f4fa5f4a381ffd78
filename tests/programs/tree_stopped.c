// Processes that are stopped (SIGSTOP, by another process, by themselves, as a group) while they use shared memory: the
// others go on using it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kRounds = 8, kPages = 5 };
struct shared {
  volatile long count, told, heard;
  char text[kPages * 4096];
};

// Never sleeps and never calls: it holds all pages all the time.
static void busy(struct shared* s) {
  for (;;) {
    s->count++;
    for (int i = 0; i < kPages; i++) s->text[i * 4096] += 1;
    if (s->told != s->heard) s->heard = s->told;
  }
}
static void* busy_thread(void* s) {
  busy(s);
  return NULL;
}

static void await_stop(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
}
static void look(struct shared* s, const char* what) {
  const long before = s->count;
  char text[kPages];
  for (int i = 0; i < kPages; i++) text[i] = s->text[i * 4096];
  usleep(2000);
  CHECK(s->count == before);
  for (int i = 0; i < kPages; i++) CHECK(s->text[i * 4096] == text[i]);
  s->told++;
  CHECK(s->heard != s->told);
  printf("%s: nothing moves\n", what);
  fflush(stdout);
}
static void await_word(struct shared* s) {
  while (s->heard != s->told) usleep(100);
}

static void send_stop(pid_t pid, int round) {
  switch (round % 4) {
    case 0:
      CHECK(kill(pid, SIGSTOP) == 0);
      break;
    case 1:
      CHECK(syscall(SYS_tgkill, pid, pid, SIGSTOP) == 0);
      break;
    case 2: {
      const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
      CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0) == 0);
      close(fd);
      break;
    }
    default:
      CHECK(sigqueue(pid, SIGSTOP, (union sigval){0}) == 0);
  }
}

static void by_another(struct shared* s, int threads) {
  const pid_t child = fork();
  if (child == 0) {
    pthread_t other;
    if (threads) CHECK(pthread_create(&other, NULL, busy_thread, s) == 0);
    busy(s);
  }
  for (int round = 0; round < kRounds; round++) {
    const long before = s->count;
    while (s->count == before) usleep(100);
    send_stop(child, round);
    await_stop(child);
    look(s, threads ? "threads" : "another");
    CHECK(kill(child, SIGCONT) == 0);
    await_word(s);
  }
  // It can be killed while it is stopped.
  send_stop(child, 0);
  await_stop(child);
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child);
  s->count++;
}

static void by_itself(struct shared* s) {
  const pid_t child = fork();
  if (child == 0) {
    for (int round = 0; round < kRounds; round++) {
      for (int i = 0; i < 1000; i++) {
        s->count++;
        for (int k = 0; k < kPages; k++) s->text[k * 4096] += 1;
      }
      if (round % 2)
        raise(SIGSTOP);
      else
        kill(getpid(), SIGSTOP);
      s->heard = s->told;
    }
    _exit(0);
  }
  for (int round = 0; round < kRounds; round++) {
    await_stop(child);
    look(s, "itself");
    CHECK(kill(child, SIGCONT) == 0);
    await_word(s);
  }
  CHECK(waitpid(child, NULL, 0) == child);
}

static void as_group(struct shared* s) {
  pid_t children[2];
  for (int i = 0; i < 2; i++) {
    if ((children[i] = fork()) == 0) {
      setpgid(0, i ? children[0] : 0);
      busy(s);
    }
    setpgid(children[i], children[0]);
  }
  for (int round = 0; round < kRounds / 2; round++) {
    const long before = s->count;
    while (s->count == before) usleep(100);
    CHECK(kill(-children[0], SIGSTOP) == 0);
    for (int i = 0; i < 2; i++) await_stop(children[i]);
    look(s, "group");
    CHECK(kill(-children[0], SIGCONT) == 0);
    await_word(s);
  }
  kill(-children[0], SIGKILL);
  for (int i = 0; i < 2; i++) CHECK(waitpid(children[i], NULL, 0) == children[i]);
}

// One that has a file to itself is stopped; then another one maps the file.
static void alone(void) {
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0);
  unlink("status");
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open("status", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
    struct shared* mine = mmap(NULL, sizeof *mine, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mine != MAP_FAILED);
    CHECK(write(ready[1], "", 1) == 1);
    busy(mine);
  }
  CHECK(read(ready[0], &byte, 1) == 1);
  send_stop(child, 0);
  await_stop(child);
  const int fd = open("status", O_RDWR);
  struct shared* s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  look(s, "alone");
  CHECK(kill(child, SIGCONT) == 0);
  await_word(s);
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child);
  munmap(s, sizeof *s);
  close(fd);
  unlink("status");
}

int main(void) {
  struct shared* s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(s != MAP_FAILED);
  by_another(s, 0);
  by_another(s, 1);
  by_itself(s);
  as_group(s);
  alone();
  return 0;
}
