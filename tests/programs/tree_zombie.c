// What can be seen of processes that have ended and were not collected yet: their signals and limits are those of the
// program.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void handler(int signo) { (void)signo; }

static void show(const char* how, pid_t pid) {
  char path[64], line[512];
  siginfo_t info;
  CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0);
  printf("%s: %d %d\n", how, info.si_code, info.si_status);
  const char* wanted[] = {"State", "FDSize", "Vm", "Threads", "SigBlk", "SigIgn", "SigCgt", "Max address", "Max stack"};
  for (int i = 0; i < 2; i++) {
    sprintf(path, "/proc/%d/%s", pid, i ? "limits" : "status");
    FILE* f = fopen(path, "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
      for (unsigned k = 0; k < sizeof wanted / sizeof *wanted; k++)
        if (!strncmp(line, wanted[k], strlen(wanted[k]))) printf("  %s", line);
    fclose(f);
  }
  // Fields behind the name: its state, sizes and signals.
  sprintf(path, "/proc/%d/stat", pid);
  FILE* f = fopen(path, "r");
  CHECK(f && fgets(line, sizeof line, f));
  fclose(f);
  int number = 3;
  for (char* word = strtok(strrchr(line, ')') + 2, " "); word; word = strtok(NULL, " "), number++)
    if (number == 3 || number == 20 || (number >= 23 && number <= 34 && number != 31)) printf("  %s", word);
  sprintf(path, "/proc/%d/maps", pid);
  f = fopen(path, "r");
  printf("\n  %s\n", f && fgets(line, sizeof line, f) ? line : "no maps");
  if (f) fclose(f);
  fflush(stdout);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

static void* thread(void* arg) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  raise(SIGURG);
  return arg;
}

static void prepare(void) {
  sigset_t set;
  signal(SIGUSR1, handler);
  signal(SIGSEGV, handler);
  signal(SIGPIPE, SIG_IGN);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  setrlimit(RLIMIT_AS, &(struct rlimit){900 << 20, 1000 << 20});
  setrlimit(RLIMIT_STACK, &(struct rlimit){3 << 20, 8 << 20});
}

static void end(int how) {
  prepare();
  pthread_t t;
  switch (how) {
    case 0:
      _exit(3);
    case 1:
      raise(SIGTERM);
    case 2:
      raise(SIGKILL);
    case 3:
      signal(SIGSEGV, SIG_DFL);
      *(volatile int*)8 = 1;
    case 4:
      CHECK(pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, NULL) == 0);
      CHECK(pthread_create(&t, NULL, thread, NULL) == 0);
      _exit(4);
    default:
      for (;;) pause();
  }
}

int main(void) {
  static const char* const kNames[] = {"exit", "SIGTERM", "own SIGKILL", "fault", "threads", "killed"};
  for (int how = 0; how < 6; how++) {
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      if (how == 5) {
        prepare();
        CHECK(write(ready[1], "x", 1) == 1);
      }
      end(how);
    }
    char byte;
    if (how == 5) CHECK(read(ready[0], &byte, 1) == 1 && kill(pid, SIGKILL) == 0);
    close(ready[0]);
    close(ready[1]);
    show(kNames[how], pid);
  }
  pid_t pid = vfork();
  if (pid == 0) {
    signal(SIGUSR1, handler);
    signal(SIGPIPE, SIG_IGN);
    _exit(5);
  }
  show("vfork", pid);
  return 0;
}
