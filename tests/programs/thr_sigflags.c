// All flags of sigaction, in a thread that is not the first: NODEFER, RESETHAND, ONSTACK, SIGINFO, NOCLDSTOP, NOCLDWAIT,
// sa_mask; nested handlers; siglongjmp out of a handler with the mask restored.
#include <setjmp.h>
#include <sys/wait.h>

#include "thr.h"

static char text[200];
static int depth, left;
static void note(const char* what) { strcat(text, what); }
static void show(const char* name) {
  printf("%s: %s\n", name, text);
  memset(text, 0, sizeof text);
}
static void set(int signo, void (*function)(int), int flags, int masked) {
  struct sigaction action = {.sa_handler = function, .sa_flags = flags};
  if (masked) sigaddset(&action.sa_mask, masked);
  CHECK(sigaction(signo, &action, 0) == 0);
}

static void nested(int signo) {
  note(depth == 0 ? "(" : "[");
  depth++;
  if (left-- > 0) raise(SIGUSR1);
  depth--;
  note(depth == 0 ? ")" : "]");
}
static void outer(int signo) {
  note("(");
  raise(SIGUSR2);
  note(")");
}
static void inner(int signo) { note("x"); }

static sigjmp_buf place;
static void jumps(int signo) { siglongjmp(place, signo); }

static void* thread(void* argument) {
  sigset_t none;
  sigemptyset(&none);
  OK0(pthread_sigmask(SIG_SETMASK, &none, 0));
  // The signal is blocked in its own handler: one after another.
  set(SIGUSR1, nested, 0, 0);
  left = 2;
  raise(SIGUSR1);
  show("deferred");
  set(SIGUSR1, nested, SA_NODEFER, 0);
  left = 2;
  raise(SIGUSR1);
  show("not deferred");
  set(SIGUSR1, outer, 0, 0);
  set(SIGUSR2, inner, 0, 0);
  raise(SIGUSR1);
  show("nested");
  set(SIGUSR1, outer, 0, SIGUSR2);
  raise(SIGUSR1);
  show("masked");
  set(SIGUSR1, inner, SA_RESETHAND, 0);
  raise(SIGUSR1);
  struct sigaction now;
  CHECK(sigaction(SIGUSR1, 0, &now) == 0 && now.sa_handler == SIG_DFL);
  show("reset");
  set(SIGUSR1, jumps, 0, SIGUSR2);
  for (volatile int i = 0; i < 20; i++) {
    int came = sigsetjmp(place, 1);
    if (came == 0) {
      raise(SIGUSR1);
      CHECK(!"cannot be");
    }
    sigset_t mask;
    OK0(pthread_sigmask(SIG_SETMASK, 0, &mask));
    CHECK(came == SIGUSR1 && !sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGUSR2));
  }
  note("20 times");
  show("jumps");

  siginfo_t info;
  int status;
  set(SIGCHLD, inner, SA_RESTART, 0);
  pid_t child = fork();
  if (child == 0) _exit(5);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
  show("child");
  set(SIGCHLD, SIG_IGN, SA_NOCLDWAIT, 0);
  child = fork();
  if (child == 0) _exit(5);
  CHECK(waitpid(child, &status, 0) == -1 && errno == ECHILD);
  set(SIGCHLD, inner, SA_NOCLDSTOP, 0);
  child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(6);
  }
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(text[0] == 0);
  CHECK(kill(child, SIGCONT) == 0);
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_status == 6);
  show("no stops");
  return 0;
}

int main(void) {
  // All signals are the thread's.
  sigset_t all;
  sigfillset(&all);
  OK0(pthread_sigmask(SIG_SETMASK, &all, 0));
  join(start(thread, 0));
  return 0;
}
