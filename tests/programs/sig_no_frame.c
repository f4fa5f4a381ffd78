// Signals whose frame cannot be written: the alternate stack is full, read-only or gone, the stack pointer is wild.
// The signal is lost and SIGSEGV comes in its place, whose handler may have another stack; if it has none, that is the end.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static char good[64 << 10] __attribute__((aligned(4096)));
static volatile sig_atomic_t depth;
static int ends[2];

static void on_segv(int signo, siginfo_t* info, void* context) {
  struct sigaction now;
  sigset_t mask;
  (void)context;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  sigaction(SIGUSR1, NULL, &now);
  printf("  handler of %d: si_code %d at %p, %s stack, SIGUSR1 %s, %s\n", signo, info->si_code, info->si_addr,
         (char*)&signo >= good && (char*)&signo < good + sizeof good ? "that" : "the usual",
         now.sa_handler == SIG_DFL ? "default" : "handled", sigismember(&mask, SIGUSR1) ? "blocked" : "not blocked");
  siglongjmp(back, 1);
}
static void on_segv_write(int signo, siginfo_t* info, void* context) {
  (void)context;
  printf("  handler of %d: si_code %d\n", signo, info->si_code);
  if (write(ends[1], "x", 1) != 1) abort();
}
static void on_other(int signo) { printf("  handler of %d\n", signo); }
static void on_nested(int signo) {
  depth++;
  raise(signo);
}

static void handle(int signo, void* handler, int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = (void (*)(int))handler;
  action.sa_flags = flags;
  sigaction(signo, &action, NULL);
}

static void* alt(int prot) {
  const stack_t stack = {.ss_sp = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                         .ss_size = 65536};
  sigaltstack(&stack, NULL);
  if (prot < 0)
    munmap(stack.ss_sp, 65536);
  else
    mprotect(stack.ss_sp, 65536, prot);
  return stack.ss_sp;
}

static void divide(void) {
  volatile int zero = 0;
  volatile int n = 7 / zero;
  (void)n;
}

// A signal to oneself with a stack pointer that leads nowhere.
static void kill_without_stack(int pid, int signo, uint64_t sp) {
  asm volatile(
      "mov %%rsp, %%rbx\n mov %[sp], %%rsp\n mov $62, %%eax\n syscall\n mov %%rbx, %%rsp\n"
      :
      : "D"((long)pid), "S"((long)signo), [sp] "r"(sp)
      : "rax", "rbx", "rcx", "r11", "memory");
}

static void test(int n) {
  if (sigsetjmp(back, 1)) {
    printf("  and back\n");
    return;
  }
  switch (n) {
    case 0:  // an asynchronous one, read-only; SIGSEGV on the usual stack; SA_RESETHAND happens first
      alt(PROT_READ);
      handle(SIGUSR1, on_other, SA_ONSTACK | SA_RESETHAND);
      handle(SIGSEGV, on_segv, SA_SIGINFO);
      raise(SIGUSR1);
      break;
    case 1:  // a fault, unmapped
      alt(-1);
      handle(SIGFPE, on_other, SA_ONSTACK);
      handle(SIGSEGV, on_segv, SA_SIGINFO);
      divide();
      break;
    case 2:  // SIGSEGV has the same stack
      alt(-1);
      handle(SIGUSR1, on_other, SA_ONSTACK);
      handle(SIGSEGV, on_segv, SA_SIGINFO | SA_ONSTACK);
      raise(SIGUSR1);
      break;
    case 3:  // … or no handler
      alt(-1);
      handle(SIGUSR1, on_other, SA_ONSTACK);
      raise(SIGUSR1);
      break;
    case 4:  // … or is ignored
      alt(-1);
      handle(SIGUSR1, on_other, SA_ONSTACK);
      handle(SIGSEGV, SIG_IGN, 0);
      raise(SIGUSR1);
      break;
    case 5: {  // … or blocked
      sigset_t set;
      alt(-1);
      handle(SIGUSR1, on_other, SA_ONSTACK);
      handle(SIGSEGV, on_segv, SA_SIGINFO);
      sigemptyset(&set);
      sigaddset(&set, SIGSEGV);
      sigprocmask(SIG_BLOCK, &set, NULL);
      raise(SIGUSR1);
      break;
    }
    case 6:  // full: who is on it must not leave it downwards, whatever the flags of SIGSEGV
      alt(PROT_READ | PROT_WRITE);
      handle(SIGUSR1, on_nested, SA_ONSTACK | SA_NODEFER);
      handle(SIGSEGV, on_segv, SA_SIGINFO);
      raise(SIGUSR1);
      break;
    case 7:  // the usual stack is not there, SIGSEGV has a good one
    case 8: {
      const stack_t stack = {.ss_sp = good, .ss_size = sizeof good};
      sigaltstack(&stack, NULL);
      handle(SIGUSR1, on_other, 0);
      handle(SIGSEGV, on_segv, SA_SIGINFO | SA_ONSTACK);
      kill_without_stack(getpid(), SIGUSR1, n == 7 ? 0 : 0x7777777777777778);
      break;
    }
    case 9: {  // at any instruction
      const struct itimerval soon = {{0, 0}, {0, 20000}};
      alt(PROT_READ);
      handle(SIGALRM, on_other, SA_ONSTACK);
      handle(SIGSEGV, on_segv, SA_SIGINFO);
      setitimer(ITIMER_REAL, &soon, NULL);
      for (volatile unsigned long i = 0;; i++) continue;
    }
    case 10: {  // in a call, which is made again behind both
      const struct itimerval soon = {{0, 0}, {0, 20000}};
      char c = 0;
      alt(PROT_READ);
      if (pipe(ends) != 0) abort();
      handle(SIGALRM, on_other, SA_ONSTACK | SA_RESTART);
      handle(SIGSEGV, on_segv_write, SA_SIGINFO);
      setitimer(ITIMER_REAL, &soon, NULL);
      const ssize_t n = read(ends[0], &c, 1);
      printf("  read %zd %c\n", n, c);
      return;
    }
    default: {  // … or ends with EINTR
      const struct itimerval soon = {{0, 0}, {0, 20000}};
      char c = 0;
      alt(PROT_READ);
      if (pipe(ends) != 0) abort();
      handle(SIGALRM, on_other, SA_ONSTACK);
      handle(SIGSEGV, on_segv_write, SA_SIGINFO | SA_RESTART);
      setitimer(ITIMER_REAL, &soon, NULL);
      const ssize_t n = read(ends[0], &c, 1);
      printf("  read %zd, errno %d\n", n, errno);
      return;
    }
  }
  printf("  nothing happened\n");
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc > 1) {
    test(atoi(argv[1]));
    return 0;
  }
  for (int n = 0; n <= 11; n++) {
    int status = 0;
    printf("test %d\n", n);
    fflush(stdout);
    if (fork() == 0) {
      test(n);
      fflush(stdout);
      _exit(0);
    }
    wait(&status);
    printf("  ended with %d, signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
  }
  return 0;
}
