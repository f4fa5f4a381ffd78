// Recorded processes that quarrel about the same pages: counters, a queue with many writers and readers, a sequence
// lock, a lock for many readers, and a buffer that is passed around. One more process is killed in the middle of it,
// while it holds pages; the others must not notice. With an argument, that many rounds.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kProcesses = 4, kSlots = 16, kBlock = 2 * 4096 };
struct shared {
  atomic_int ready;
  atomic_long sum;
  volatile long racy;
  atomic_long queued, taken_sum;
  struct {
    atomic_ulong turn;
    uint64_t value;
  } slots[kSlots];
  atomic_ulong put, get;
  _Alignas(4096) atomic_uint sequence;
  uint64_t left, right;
  _Alignas(4096) pthread_rwlock_t lock;
  uint64_t guarded[64];
  _Alignas(4096) atomic_int holder;
  unsigned char block[kBlock];
  _Alignas(4096) atomic_long endless;
};
static int rounds = 300;

static void put(struct shared* s, uint64_t value) {
  unsigned long at = s->put++;
  while (s->slots[at % kSlots].turn != at / kSlots * 2) usleep(20);
  s->slots[at % kSlots].value = value;
  s->slots[at % kSlots].turn++;
}
static uint64_t get(struct shared* s) {
  unsigned long at = s->get++;
  while (s->slots[at % kSlots].turn != at / kSlots * 2 + 1) usleep(20);
  uint64_t value = s->slots[at % kSlots].value;
  s->slots[at % kSlots].turn++;
  return value;
}
static void work(struct shared* s, int me) {
  s->ready++;
  while (s->ready < kProcesses) usleep(50);
  uint64_t seen = 0;
  for (int i = 0; i < rounds; i++) {
    for (int k = 0; k < 20; k++) s->sum++, s->racy++;
    if (me % 2) {
      put(s, (uint64_t)me * 1000000 + (uint64_t)i);
    } else {
      s->taken_sum += (long)get(s);
    }
    if (me == 0) {
      s->sequence++;
      s->left = (uint64_t)i;
      atomic_thread_fence(memory_order_seq_cst);
      s->right = ~(uint64_t)i;
      s->sequence++;
    } else {
      unsigned before = s->sequence;
      uint64_t left = *(volatile uint64_t*)&s->left, right = *(volatile uint64_t*)&s->right;
      atomic_thread_fence(memory_order_seq_cst);
      if (before && before % 2 == 0 && before == s->sequence) CHECK(left == ~right);
      seen ^= left;
    }
    if (i % 16 == me) {
      pthread_rwlock_wrlock(&s->lock);
      for (int k = 0; k < 64; k++) s->guarded[k]++;
      pthread_rwlock_unlock(&s->lock);
    } else if (i % 4 == 0) {
      pthread_rwlock_rdlock(&s->lock);
      for (int k = 1; k < 64; k++) CHECK(s->guarded[k] == s->guarded[0]);
      seen += s->guarded[0];
      pthread_rwlock_unlock(&s->lock);
    }
    if (i % 30 == 0) {
      // Each in its turn changes the whole block, with one instruction across the pages.
      while (s->holder != me) usleep(50);
      for (int k = 1; k < kBlock; k++) CHECK(s->block[k] == s->block[0]);
      unsigned char* to = s->block;
      size_t n = kBlock;
      __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(s->block[0] + 1) : "memory");
      s->holder = (me + 1) % kProcesses;
    }
  }
  fprintf(stderr, "%d saw %016lx\n", me, seen);
}

int main(int argc, char** argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  struct shared* s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(s != MAP_FAILED);
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  CHECK(pthread_rwlock_init(&s->lock, &attributes) == 0);
  pid_t victim = fork();
  if (!victim)
    for (;;) {  // holds pages that the others need
      s->endless++;
      unsigned before = s->sequence;
      s->racy = s->racy + (before & 1);
    }
  pid_t pids[kProcesses];
  for (int i = 0; i < kProcesses; i++)
    if (!(pids[i] = fork())) {
      work(s, i);
      _exit(0);
    }
  while (s->sum < rounds * 20) usleep(100);
  CHECK(kill(victim, SIGKILL) == 0);  // nobody collects it: it is a zombie while the others go on
  int status;
  for (int i = 0; i < kProcesses; i++) CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
  long expected = 0;
  for (int me = 1; me < kProcesses; me += 2)
    for (int i = 0; i < rounds; i++) expected += me * 1000000 + i;
  CHECK(s->sum == (long)kProcesses * rounds * 20 && s->taken_sum == expected && s->endless > 0);
  printf("sum %ld, block %d\n", (long)s->sum, s->block[0]);
  CHECK(waitpid(victim, &status, 0) == victim && WTERMSIG(status) == SIGKILL);
  return 0;
}
