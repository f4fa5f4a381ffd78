// Signals within handlers: a fault in a fault handler (SA_NODEFER), another signal's handler nested, masks
// during a handler, SA_RESETHAND, blocked signals that wait for sigprocmask, sigsuspend, sigwaitinfo,
// raise and kill to itself, siginfo of each, sigqueue values, order of pending signals.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static volatile int depth, deepest, order[32], orders;

static void nested(int signo) {
  depth++;
  if (depth > deepest) deepest = depth;
  if (depth < 5) raise(signo);
  depth--;
}

static void note(int signo, siginfo_t* info, void* context) {
  (void)context;
  order[orders++] = signo;
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, 0, &blocked);
  printf("signal %d code %d value %d own blocked %d usr2 blocked %d\n", signo, info->si_code,
         info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, sigismember(&blocked, signo),
         sigismember(&blocked, SIGUSR2));
  CHECK(info->si_code > 0 || info->si_pid == getpid());
}

// A fault handler that faults itself, down to a depth, and mends each page on the way back.
static volatile char* pages;
static void fault(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)context;
  long page = ((char*)info->si_addr - (char*)pages) / 4096;
  CHECK(page >= 0 && page < 6);
  if (page < 5) pages[(page + 1) * 4096] = 1;
  CHECK(mprotect((char*)pages + page * 4096, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void outer(int signo) {
  (void)signo;
  order[orders++] = 100;
  raise(SIGUSR2);
  order[orders++] = 101;
}

static void once(int signo) {
  order[orders++] = signo + 1000;
}

static void install(int signo, void* handler, int flags, int also_block) {
  struct sigaction action = {.sa_flags = flags};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  if (also_block) sigaddset(&action.sa_mask, also_block);
  CHECK(sigaction(signo, &action, 0) == 0);
}

int main(void) {
  install(SIGUSR1, nested, SA_NODEFER, 0);
  raise(SIGUSR1);
  CHECK(deepest == 5);
  pages = mmap(0, 6 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  install(SIGSEGV, fault, SA_SIGINFO | SA_NODEFER, 0);
  pages[0] = 7;
  CHECK(pages[0] == 7 && pages[5 * 4096] == 1);

  install(SIGUSR2, note, SA_SIGINFO, 0);
  install(SIGUSR1, outer, 0, 0);
  raise(SIGUSR1);
  CHECK(orders == 3 && order[0] == 100 && order[1] == SIGUSR2 && order[2] == 101);
  orders = 0;
  install(SIGUSR1, outer, 0, SIGUSR2);
  raise(SIGUSR1);
  CHECK(orders == 3 && order[0] == 100 && order[1] == 101 && order[2] == SIGUSR2);

  orders = 0;
  install(SIGHUP, once, SA_RESETHAND, 0);
  kill(getpid(), SIGHUP);
  struct sigaction now;
  CHECK(orders == 1 && sigaction(SIGHUP, 0, &now) == 0 && now.sa_handler == SIG_DFL);

  // Pending signals: standard ones merge, real-time ones queue.
  orders = 0;
  sigset_t set, old, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGRTMIN + 1);
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  install(SIGRTMIN + 1, note, SA_SIGINFO, 0);
  for (int i = 0; i < 3; i++) {
    kill(getpid(), SIGUSR2);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i + 7});
  }
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2) && orders == 0);
  siginfo_t info;
  CHECK(sigwaitinfo(&set, &info) == SIGUSR2 && info.si_pid == getpid());
  CHECK(sigtimedwait(&set, &info, &(struct timespec){0, 0}) == SIGRTMIN + 1 && info.si_value.sival_int == 7);
  CHECK(sigprocmask(SIG_SETMASK, &old, 0) == 0);
  CHECK(orders == 2 && order[0] == SIGRTMIN + 1);
  // sigsuspend with a pending signal returns at once, after the handler.
  CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  kill(getpid(), SIGUSR2);
  CHECK(sigsuspend(&old) == -1 && errno == EINTR && order[orders - 1] == SIGUSR2);
  // Ignored signals do nothing; SIGCHLD and SIGURG do nothing by default.
  signal(SIGTERM, SIG_IGN);
  raise(SIGTERM);
  raise(SIGURG);
  raise(SIGCHLD);
  printf("nested right\n");
}
