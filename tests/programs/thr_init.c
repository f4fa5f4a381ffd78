// The first process of a PID namespace: signals that would kill or stop it are ignored, unless they are its own faults.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready[2], done[2];
static volatile sig_atomic_t hits;
static void on_signal(int signo) {
  (void)signo;
  hits++;
}

static void survive(const char* when) {
  const int signals[] = {SIGTERM, SIGKILL, SIGSTOP, SIGTSTP, SIGSEGV, SIGABRT, SIGTRAP, SIGUSR2, SIGRTMIN};
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
    kill(getpid(), signals[i]);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signals[i]);
  }
  // Blocked ones are pending, and nothing when they are let in.
  sigset_t set, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGTERM);
  sigpending(&pending);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  signal(SIGUSR1, on_signal);
  hits = 0;
  raise(SIGUSR1);
  signal(SIGUSR1, SIG_DFL);
  raise(SIGUSR1);
  printf("  pid %d survives %s; pending %d, handled %d\n", getpid(), when, sigismember(&pending, SIGTERM), (int)hits);
  fflush(stdout);
}

// (While pthread_create has all signals blocked the kernel lets one through that kills, natively.)
static pthread_barrier_t made;
static void* in_thread(void* unused) {
  (void)unused;
  pthread_barrier_wait(&made);
  survive("in a thread");
  return NULL;
}

static void crash(int how) {
  switch (how) {
    case 0:
      *(volatile int*)8 = 1;
      break;
    case 1:
      asm volatile("ud2");
      break;
    case 2: {
      volatile int zero = 0;
      volatile int n = 7 / zero;
      (void)n;
      break;
    }
    case 3:
      asm volatile("int3");
      break;
    case 4: {
      FILE* file = tmpfile();
      volatile char* p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
      (void)*p;
      break;
    }
    case 5: {
      struct sock_filter trap = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
      struct sock_fprog program = {1, &trap};
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
      getppid();
      break;
    }
    case 6:
      abort();
    default:
      _exit(3);
  }
  _exit(9);
}

static char stack[1 << 16] __attribute__((aligned(16)));
static int become_other(void* argv) {
  execv("/proc/self/exe", argv);
  _exit(127);
}

static void report(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, __WALL) != pid) printf("  %s\n", strerror(errno));
  printf("  ended with %d, signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    survive("as another program");
    crash(atoi(argv[1]));
  }
  const int flags = CLONE_NEWPID | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
  for (int how = 0; how <= 7; how++) {
    printf("test %d\n", how);
    fflush(stdout);
    pid_t pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
      if (how == 0) {
        pthread_t thread;
        survive("alone");
        pthread_barrier_init(&made, NULL, 2);
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_barrier_wait(&made);
        pthread_join(thread, NULL);
        survive("with threads");
      }
      crash(how);
    }
    if (pid < 0) {
      printf("no namespaces: %s\n", strerror(errno));
      return 77;
    }
    report(pid);
  }
  // Signals of the outer namespace: only SIGKILL counts.
  pipe(ready), pipe(done);
  pid_t pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  char c = 'x';
  if (pid == 0) {
    if (write(ready[1], &c, 1) != 1 || read(done[0], &c, 1) != 1) _exit(8);
    printf("  went on\n");
    fflush(stdout);
    if (write(ready[1], &c, 1) != 1) _exit(8);
    for (;;) pause();
  }
  if (read(ready[0], &c, 1) != 1) return 1;
  kill(pid, SIGTERM);
  kill(pid, SIGSEGV);
  kill(pid, SIGTSTP);
  if (write(done[1], &c, 1) != 1 || read(ready[0], &c, 1) != 1) return 1;
  kill(pid, SIGKILL);
  report(pid);
  // The child of a vfork in a namespace of its own, which becomes another program.
  char* again[] = {argv[0], "1", NULL};
  fflush(stdout);
  report(clone(become_other, stack + sizeof stack, flags | CLONE_VM | CLONE_VFORK | SIGCHLD, again));
  return 0;
}
