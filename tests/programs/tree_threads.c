// Threads and processes: fork, exit and vfork from threads that are not the first, while others run.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char** environ;
static volatile long counter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void* busy(void* unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    counter++;
    pthread_mutex_unlock(&lock);
  }
  return unused;
}
static void* sleeper(void* unused) {
  for (;;) usleep(1000);
  return unused;
}

static void* quits(void* unused) { exit(21); }
static void* ends(void* unused) {
  // A thread's own address of its tid, not another's (which would be cleared in its place when it ends).
  int* address;
  if (prctl(PR_GET_TID_ADDRESS, &address) == 0) {
    CHECK(*address == gettid());
    CHECK(syscall(SYS_set_tid_address, address) == gettid());
  }
  return (void*)7;
}
static void* dies(void* unused) {
  raise(SIGKILL);
  return unused;
}

// In a child, which has one thread: it can start others.
static int child(int i) {
  pthread_t t;
  void* result;
  CHECK(pthread_create(&t, NULL, ends, NULL) == 0 && pthread_join(t, &result) == 0 && result == (void*)7);
  if (i % 3 == 0) {
    pthread_create(&t, NULL, quits, NULL);
    sleeper(NULL);
  }
  if (i % 3 == 1) {
    pthread_create(&t, NULL, dies, NULL);
    sleeper(NULL);
  }
  return 22;
}

static void* forks(void* argument) {
  long number = (long)argument;
  for (int i = 0; i < 3; i++) {
    pthread_mutex_lock(&lock);  // so that the child does not find it locked by nobody
    pid_t pid = fork();
    pthread_mutex_unlock(&lock);
    CHECK(pid >= 0);
    if (pid == 0) exit(child(i));
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(i % 3 == 0   ? WEXITSTATUS(status) == 21
          : i % 3 == 1 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                       : WEXITSTATUS(status) == 22);
    CHECK(posix_spawn(&pid, "/bin/sh", NULL, NULL, (char*[]){"sh", "-c", "exit 4", NULL}, environ) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 4);
  }
  printf("thread %ld is done\n", number);
  return NULL;
}

static void* last(void* unused) {
  printf("exit from a thread\n");
  exit(3);
}

static void in_child(void) { counter = -1; }

int main(void) {
  pthread_t t, forkers[3];
  setvbuf(stdout, NULL, _IOLBF, 0);
  pthread_atfork(NULL, NULL, in_child);
  pthread_create(&t, NULL, busy, NULL);
  pthread_create(&t, NULL, sleeper, NULL);
  for (long i = 0; i < 3; i++) pthread_create(&forkers[i], NULL, forks, (void*)i);
  for (int i = 0; i < 3; i++) pthread_join(forkers[i], NULL);
  CHECK(system("exit 9") == 9 << 8);
  pthread_create(&t, NULL, last, NULL);
  for (;;) pause();
}
