// Dies in a way that leaves a core file; who waits for it says whether there is one.
//
//   thr_core HOW [thread]     segv, abort, quit (sent to itself), outside (SIGABRT while it computes), term
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct item {
  struct item* next;
  char name[20];
  volatile int n;
};
struct item* list;
volatile int counter = 42;
__thread volatile int of_thread;
static const char* how;
static int ends[2], ready[2];

__attribute__((noinline)) static void inner(void) {
  of_thread = 7;
  if (!strcmp(how, "segv"))
    for (struct item* i = list;; i = i->next) counter += i->n;
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "quit")) raise(SIGQUIT);
  if (!strcmp(how, "term")) kill(getpid(), SIGTERM);
  if (write(ready[1], "x", 1) != 1) _exit(1);
  for (;;) of_thread = 7;
}
__attribute__((noinline)) static void outer(void) {
  inner();
  counter++;
}
// Until then its stack is anything.
static void until_it_sleeps(int tid) {
  char path[64], text[512], *state = NULL;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  do {
    usleep(5000);
    FILE* file = fopen(path, "r");
    if (!file) continue;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    state = strrchr(text, ')');
  } while (!state || state[2] != 'S');
}
static volatile int waits;
static void* waiter(void* unused) {
  char c;
  of_thread = 55;
  waits = gettid();
  return (void*)read(ends[0], &c, 1);
}
static void* crasher(void* unused) {
  while (!waits) usleep(1000);
  until_it_sleeps(waits);
  until_it_sleeps(getpid());
  outer();
  return unused;
}

int main(int argc, char** argv) {
  char c;
  how = argv[1];
  list = calloc(1, sizeof *list);
  strcpy(list->name, "only one");
  list->n = 5;
  list->next = (void*)0x1234;
  if (pipe(ends) != 0 || pipe(ready) != 0) return 1;
  const pid_t pid = fork();
  if (pid == 0) {
    if (argc > 2) {
      pthread_t a, b;
      of_thread = 66;
      pthread_create(&a, NULL, waiter, NULL);
      pthread_create(&b, NULL, crasher, NULL);
      pthread_join(b, NULL);
    }
    outer();
    _exit(0);
  }
  if (!strcmp(how, "outside")) {
    if (read(ready[0], &c, 1) != 1) return 1;
    usleep(10000);
    kill(pid, SIGABRT);
  }
  siginfo_t info;
  int status;
  waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
  waitpid(pid, &status, 0);
  printf("%s %s: signal %d, core %d, code %s\n", how, argc > 2 ? "in a thread" : "alone", WTERMSIG(status), !!WCOREDUMP(status),
         info.si_code == CLD_DUMPED ? "dumped" : info.si_code == CLD_KILLED ? "killed" : "other");
  return 0;
}
