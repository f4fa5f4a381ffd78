// Processes that share memory with their parent and run at the same time: clone with CLONE_VM alone. What they are for
// the kernel (pid, parent, descriptors, working directory, signals, death) and what they do to the memory; one that
// traces the threads of its parent, as LeakSanitizer's does.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kStack = 256 << 10 };
static char stack[kStack] __attribute__((aligned(16)));
static atomic_int shared, other;
static pid_t parent;

static pid_t start(int (*life)(void*), int flags) {
  return clone(life, stack + kStack, CLONE_VM | flags, NULL);
}
static int status_of(pid_t pid) {
  int status = 0;
  CHECK(waitpid(pid, &status, __WALL) == pid);
  return status;
}

// --- identity, memory, descriptors ---

static pid_t seen_pid, seen_parent, seen_tid;
static char* mapped;
static int its_file;
static int ordinary(void* unused) {
  (void)unused;
  seen_pid = getpid(), seen_parent = getppid(), seen_tid = (pid_t)syscall(SYS_gettid);
  shared = 5;
  // Its own: descriptors and the working directory.
  close(its_file);
  CHECK(chdir("/") == 0);
  const int fd = open("/etc/passwd", O_RDONLY);
  CHECK(fd == its_file);
  mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(mapped != MAP_FAILED);
  CHECK(write(1, "written by the child\n", 21) == 21);
  return 7;
}
static int sharing_files(void* unused) {
  (void)unused;
  its_file = open("/dev/null", O_WRONLY);
  CHECK(chdir("/") == 0);
  return 0;
}
static atomic_int children;
static void on_child(int signo) {
  (void)signo;
  children++;
}

static void identity(void) {
  char before[4096], after[4096], passwd[16] = "";
  CHECK(getcwd(before, sizeof before));
  signal(SIGCHLD, on_child);
  its_file = open("/dev/zero", O_RDONLY);
  const pid_t pid = start(ordinary, SIGCHLD);
  CHECK(pid > 0);
  const int status = status_of(pid);
  CHECK(WIFEXITED(status));
  printf("ordinary: status %d, its own pid %d, its tid %d, our child %d, memory %d, SIGCHLD %d\n", WEXITSTATUS(status),
         seen_pid == pid, seen_tid == pid, seen_parent == getpid(), shared, children);
  CHECK(read(its_file, passwd, 1) == 1 && passwd[0] == 0);
  CHECK(getcwd(after, sizeof after) && strcmp(before, after) == 0);
  const int fd = open("/etc/passwd", O_RDONLY);
  CHECK(read(fd, passwd, sizeof passwd) == sizeof passwd && memcmp(passwd, mapped, sizeof passwd) == 0);
  close(fd);
  close(its_file);
  its_file = -1;
  CHECK(WEXITSTATUS(status_of(start(sharing_files, CLONE_FILES | CLONE_FS))) == 0);
  CHECK(fcntl(its_file, F_GETFD) >= 0);
  CHECK(getcwd(after, sizeof after) && strcmp(after, "/") == 0 && chdir(before) == 0);
  printf("descriptors and working directory as asked for, SIGCHLD %d\n", children);
  signal(SIGCHLD, SIG_DFL);
}

// --- at the same time ---

static int futex(atomic_int* word, int op, int value) {
  return (int)syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}
static int ping(void* unused) {
  (void)unused;
  for (int i = 0; i < 500; i++) {
    while (shared != 2 * i + 1) futex(&shared, FUTEX_WAIT_PRIVATE, 2 * i);
    shared++;
    futex(&shared, FUTEX_WAKE_PRIVATE, 1);
  }
  for (int i = 0; i < 200000; i++) other++;
  return 0;
}
static int word;
static void together(void) {
  shared = other = 0;
  pid_t told = 0;
  atomic_int cleared = 1;
  const pid_t pid = clone(ping, stack + kStack, CLONE_VM | CLONE_FILES | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                          NULL, &told, NULL, &cleared);
  CHECK(pid > 0 && told == pid);
  for (int i = 0; i < 500; i++) {
    shared++;
    futex(&shared, FUTEX_WAKE_PRIVATE, 1);
    while (shared != 2 * i + 2) futex(&shared, FUTEX_WAIT_PRIVATE, 2 * i + 1);
  }
  for (int i = 0; i < 200000; i++) other++;
  CHECK(status_of(pid) == 0);
  CHECK(cleared == 0);
  printf("together: %d %d\n", shared, other);
}

// --- signals and death ---

static volatile uintptr_t nowhere = 8;
static int crashes(void* unused) {
  (void)unused;
  *(volatile int*)nowhere = 1;
  return 0;
}
static int handled;
static void on_signal(int signo) { handled = signo; }
static int handles(void* unused) {
  (void)unused;
  signal(SIGUSR1, on_signal);
  signal(SIGSEGV, on_signal);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
  return handled;
}
static int spins(void* unused) {
  (void)unused;
  for (;;) shared++;
  return 0;
}
static int sleeps(void* unused) {
  (void)unused;
  shared++;
  for (;;) pause();
  return 0;
}
static int reads(void* unused) {
  char byte;
  (void)unused;
  shared++;
  return read(word, &byte, 1) == 1 ? byte : 1;
}
static int waits(void* unused) {
  (void)unused;
  shared++;
  other = 0;
  for (;;) futex(&other, FUTEX_WAIT_PRIVATE, 0);
  return 0;
}

static void death(void) {
  int status = status_of(start(crashes, SIGCHLD));
  printf("crash: signal %d\n", WTERMSIG(status));
  status = status_of(start(handles, SIGCHLD));
  struct sigaction ours;
  CHECK(sigaction(SIGUSR1, NULL, &ours) == 0 && ours.sa_handler == SIG_DFL);
  CHECK(sigaction(SIGSEGV, NULL, &ours) == 0 && ours.sa_handler == SIG_DFL);
  printf("handler: %d\n", WEXITSTATUS(status) == SIGUSR1);
  int ends[2];
  CHECK(pipe(ends) == 0);
  word = ends[0];
  int (*lives[])(void*) = {spins, sleeps, reads, waits};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 2; k++) {
      shared = 0;
      const pid_t pid = start(lives[i], SIGCHLD);
      while (shared == 0) usleep(100);
      usleep(1000);
      CHECK(kill(pid, k ? SIGTERM : SIGKILL) == 0);
      status = status_of(pid);
      CHECK(WIFSIGNALED(status));
      printf("killed by %d\n", WTERMSIG(status));
    }
  const pid_t pid = start(reads, SIGCHLD);
  usleep(1000);
  CHECK(write(ends[1], "\052", 1) == 1);
  printf("read: %d\n", WEXITSTATUS(status_of(pid)));
}

// --- a tracer ---

static atomic_long beats;
static atomic_int thread_tid;
static void* heart(void* unused) {
  thread_tid = (int)syscall(SYS_gettid);
  register uint64_t mark asm("r12") = 0x1234567890abcdef;
  while (mark) {
    beats++;
    asm volatile("" : "+r"(mark));
  }
  return unused;
}
static struct user_regs_struct main_registers, thread_registers;
static atomic_int tracer_may;
static int traces(void* unused) {
  (void)unused;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (!tracer_may) sched_yield();
  const pid_t tids[] = {parent, thread_tid};
  for (int i = 0; i < 2; i++) {
    int status = 0;
    if (ptrace(PTRACE_ATTACH, tids[i], NULL, NULL) != 0) return errno == EPERM ? 99 : 1;
    if (waitpid(tids[i], &status, __WALL) != tids[i] || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) return 2;
    if (ptrace(PTRACE_GETREGS, tids[i], NULL, i ? &thread_registers : &main_registers) != 0) return 3;
  }
  const long before = beats;
  usleep(3000);
  if (beats != before) return 4;
  for (int i = 0; i < 2; i++)
    if (ptrace(PTRACE_DETACH, tids[i], NULL, NULL) != 0) return 5;
  while (beats == before) sched_yield();
  return 0;
}
static void tracer(void) {
  pthread_t thread;
  parent = getpid();
  CHECK(pthread_create(&thread, NULL, heart, NULL) == 0);
  while (!beats) usleep(100);
  const pid_t pid = start(traces, CLONE_FS | CLONE_FILES | CLONE_UNTRACED);
  CHECK(pid > 0);
  prctl(PR_SET_PTRACER, pid, 0, 0, 0);
  tracer_may = 1;
  const int status = status_of(pid);
  char here;
  const uint64_t distance = (uint64_t)&here - main_registers.rsp;
  printf("tracer: status %d, stack %d, register %d\n", WEXITSTATUS(status), distance < 4096,
         thread_registers.r12 == 0x1234567890abcdef);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  identity();
  together();
  death();
  tracer();
  return 0;
}
