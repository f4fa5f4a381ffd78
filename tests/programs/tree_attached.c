// How often a System V segment is attached (shmctl): by one process, several times, by children that come and go.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul

static int id;

static void show(const char* when) {
  struct shmid_ds about;
  memset(&about, 0x55, sizeof about);
  CHECK(shmctl(id, IPC_STAT, &about) == 0);
  printf("%s: %lu\n", when, about.shm_nattch);
  fflush(stdout);
  // The same by its place in the kernel's table.
  struct shmid_ds info;
  int last = shmctl(0, SHM_INFO, &info), found = 0;
  for (int i = 0; i <= last && !found; i++) {
    struct shmid_ds other;
    if (shmctl(i, SHM_STAT, &other) != id) continue;
    found = 1;
    CHECK(other.shm_nattch == about.shm_nattch);
  }
  CHECK(found);
}

static pid_t child_that(void (*does)(volatile char*, int, int), volatile char* p, int to, int from) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    does(p, to, from);
    _exit(0);
  }
  return pid;
}

static void work(volatile char* p, int to, int from) {
  char byte = 0;
  for (int i = 0; i < 200; i++) p[i % 8 * PAGE]++;
  CHECK(write(to, "x", 1) == 1 && read(from, &byte, 1) == 1);
  if (byte == 'd') {
    CHECK(shmdt((void*)p) == 0);
    CHECK(write(to, "x", 1) == 1 && read(from, &byte, 1) == 1);
  }
}

int main(void) {
  int out[2], in[2];
  char byte;
  CHECK(pipe(out) == 0 && pipe(in) == 0);
  CHECK((id = shmget(IPC_PRIVATE, 8 * PAGE, IPC_CREAT | 0600)) >= 0);
  show("made");
  volatile char* p = shmat(id, NULL, 0);
  CHECK(p != (void*)-1);
  show("attached");
  volatile char* q = shmat(id, NULL, SHM_RDONLY);
  CHECK(q != (void*)-1);
  show("twice");
  CHECK(shmdt((void*)q) == 0);
  show("once");
  pid_t pids[3];
  for (int i = 0; i < 3; i++) {
    pids[i] = child_that(work, p, out[1], in[0]);
    show("forked");
  }
  for (int i = 0; i < 200; i++) p[i % 8 * PAGE]++;
  for (int i = 0; i < 3; i++) CHECK(read(out[0], &byte, 1) == 1);
  show("all work");
  CHECK(write(in[1], "d", 1) == 1 && read(out[0], &byte, 1) == 1);
  show("one has detached");
  CHECK(write(in[1], "xxx", 3) == 3);
  for (int i = 0; i < 3; i++) CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
  show("alone again");
  CHECK(shmctl(id, IPC_RMID, NULL) == 0);
  CHECK(shmdt((void*)p) == 0);
  struct shmid_ds gone;
  CHECK(shmctl(id, IPC_STAT, &gone) == -1);
  return 0;
}
