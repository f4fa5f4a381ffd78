// A small debugger. Its children ask to be traced and run natively; what it learns of them comes by ptrace and wait.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static volatile long watched = 41;
static volatile int caught;
static void on_usr1(int signo) { caught = signo; }

__attribute__((noinline)) static long work(long n) {
  long sum = 0;
  for (long i = 0; i < n; i++) sum += i * watched;
  return sum;
}

static int wait_for(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, __WALL) == pid);
  return status;
}

// The child is a fork: same memory, same handlers, stopped by itself.
static void trace_a_fork(void) {
  signal(SIGUSR1, on_usr1);
  double vector = 2.5;
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    long sum = work(1000);
    raise(SIGUSR1);
    printf("child: %ld, handler saw %d, %.2f, %d\n", sum, caught, vector * sum, getppid() > 1);
    fflush(stdout);
    _exit(watched == 42 ? 21 : 22);
  }
  int status = wait_for(pid);
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXIT) == 0);
  struct user_regs_struct a, b;
  struct iovec vec = {&b, sizeof b};
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &a) == 0);
  CHECK(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &vec) == 0 && vec.iov_len == sizeof b);
  CHECK(memcmp(&a, &b, sizeof a) == 0);
  errno = 0;
  CHECK(ptrace(PTRACE_PEEKDATA, pid, &watched, 0) == 41 && errno == 0);
  CHECK(ptrace(PTRACE_POKEDATA, pid, &watched, 42) == 0);
  long copy = 0;
  struct iovec here = {&copy, sizeof copy}, there = {(void *)&watched, sizeof copy};
  CHECK(process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof copy && copy == 42);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  int mem = open(path, O_RDWR);
  CHECK(mem >= 0 && pread(mem, &copy, sizeof copy, (off_t)&watched) == sizeof copy && copy == 42);
  close(mem);
  // A breakpoint at work, by hand.
  long code = ptrace(PTRACE_PEEKTEXT, pid, work, 0);
  CHECK(ptrace(PTRACE_POKETEXT, pid, work, (code & ~0xffl) | 0xcc) == 0);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  status = wait_for(pid);
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  siginfo_t info;
  CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_signo == SIGTRAP);
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &a) == 0 && a.rip == (uintptr_t)work + 1 && a.rdi == 1000);
  CHECK(ptrace(PTRACE_POKETEXT, pid, work, code) == 0);
  a.rip--;
  a.rdi = 10;  // of 1000
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &a) == 0);
  for (int i = 0; i < 20; i++) {
    CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
    status = wait_for(pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  }
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  status = wait_for(pid);
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
  CHECK(ptrace(PTRACE_CONT, pid, 0, SIGUSR1) == 0);
  status = wait_for(pid);
  unsigned long message = 0;
  CHECK(status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8));
  CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0 && message == 21 << 8);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  status = wait_for(pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 21);
  printf("a fork was traced\n");
}

// The child becomes another program; with vfork it is a thread of ours until then.
static void trace_a_program(int use_vfork) {
  fflush(stdout);
  pid_t pid = use_vfork ? vfork() : fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(100);
    execl("/bin/echo", "echo", "traced", NULL);
    _exit(101);
  }
  int status = wait_for(pid), calls = 0;
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  char path[64], exe[256] = "";
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  CHECK(readlink(path, exe, sizeof exe - 1) > 0 && !strstr(exe, "backstep"));
  for (;;) {
    CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
    status = wait_for(pid);
    if (WIFEXITED(status)) break;
    calls++;
  }
  CHECK(WEXITSTATUS(status) == 0 && calls > 20);
  printf("a program was traced after %s\n", use_vfork ? "vfork" : "fork");
}

// A child that is recorded.
static void attach(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    char c;
    close(ends[1]);
    (void)!read(ends[0], &c, 1);
    _exit(3);
  }
  long result = ptrace(PTRACE_SEIZE, pid, 0, 0);
  printf("attach: %s\n", result == 0 ? "granted" : strerror(errno));
  close(ends[1]);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

int main(void) {
  trace_a_fork();
  trace_a_program(0);
  trace_a_program(1);
  attach();
  long first = ptrace(PTRACE_TRACEME, 0, 0, 0), second = ptrace(PTRACE_TRACEME, 0, 0, 0);
  printf("traced myself: %ld, then %ld\n", first, second);
  return 0;
}
