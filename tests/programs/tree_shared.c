// Memory shared between processes: anonymous over fork, a file mapped by strangers, POSIX and System V segments,
// with atomics, process-shared locks and semaphores, plain races, futexes and string instructions across pages.
// What the children found is printed by the parent, in order; the racy part prints what came of it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kChildren = 3, kRounds = 20000, kPages = 6 };
struct shared {
  atomic_long sum;
  long locked;
  volatile long racy;
  pthread_mutex_t mutex;
  sem_t done;
  atomic_uint turn;
  uint64_t seen[kChildren];
  char text[kPages * 4096];
};

static uint64_t digest(const char* p, size_t n) {
  uint64_t d = 1469598103934665603u;
  for (size_t i = 0; i < n; i++) d = (d ^ (unsigned char)p[i]) * 1099511628211u;
  return d;
}
static void prepare(struct shared* s) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  CHECK(pthread_mutex_init(&s->mutex, &attributes) == 0 && sem_init(&s->done, 1, 0) == 0);
  memset(s->text, 'a', sizeof s->text);
}
static void child(struct shared* s, int me) {
  char copy[sizeof s->text];
  memcpy(copy, s->text, sizeof copy);
  s->seen[me] = digest(copy, sizeof copy);
  for (int i = 0; i < kRounds; i++) {
    s->sum += me + 1;
    if (i % 10 == 0) {
      pthread_mutex_lock(&s->mutex);
      s->locked++;
      pthread_mutex_unlock(&s->mutex);
    }
    s->racy++;
  }
  // One after the other writes over several pages at once.
  while (s->turn != (unsigned)me) usleep(100);
  char* from = s->text + 4096 * me + 4000;
  size_t n = 4096 + 200;
  __asm__ volatile("rep stosb" : "+D"(from), "+c"(n) : "a"('A' + me) : "memory");
  s->turn = (unsigned)me + 1;
  sem_post(&s->done);
}
static void family(struct shared* s, const char* name) {
  prepare(s);
  const uint64_t before = digest(s->text, sizeof s->text);
  pid_t pids[kChildren];
  for (int i = 0; i < kChildren; i++)
    if (!(pids[i] = fork())) {
      child(s, i);
      _exit(0);
    }
  for (int i = 0; i < kChildren; i++)
    while (sem_wait(&s->done)) {
    }
  for (int i = 0; i < kChildren; i++) {
    int status;
    CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
  }
  CHECK(s->sum == (1 + 2 + 3) * (long)kRounds && s->locked == kChildren * kRounds / 10);
  int same = 0;
  for (int i = 0; i < kChildren; i++) same += s->seen[i] == before;
  printf("%s: sum %ld, locked %ld, text %016lx%s\n", name, (long)s->sum, s->locked, digest(s->text, sizeof s->text),
         same == kChildren ? "" : " (some began late)");
  fprintf(stderr, "racy %ld\n", s->racy);
}

int main(void) {
  struct shared* s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(s != MAP_FAILED);
  family(s, "anonymous");
  CHECK(munmap(s, sizeof *s) == 0);

  int fd = open("shared.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && ftruncate(fd, sizeof *s) == 0);
  s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  family(s, "file");
  // A process that maps it by itself.
  if (!fork()) {
    munmap(s, sizeof *s);
    struct shared* again = mmap(0, sizeof *again, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    strcpy(again->text, "written by a stranger");
    _exit(again->locked == kChildren * kRounds / 10 ? 0 : 1);
  }
  int status;
  CHECK(wait(&status) > 0 && status == 0);
  printf("file: %s\n", s->text);
  unlink("shared.file");

  int id = shmget(IPC_PRIVATE, sizeof *s, IPC_CREAT | 0600);
  CHECK(id >= 0);
  s = shmat(id, 0, 0);
  CHECK(s != (void*)-1);
  family(s, "system v");
  CHECK(shmdt(s) == 0 && shmctl(id, IPC_RMID, 0) == 0);
  return 0;
}
