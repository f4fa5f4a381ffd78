// Processes that write each other's memory: process_vm_writev and /proc/PID/mem, to those that compute, wait, are
// stopped, have ended; what the kernel refuses; code, read-only pages, shared memory. With an argument: a
// storm of writers and targets that compute, wait, fork and die.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kPage = 4096 };

static volatile long word, counter;
static char large[300 * 1000];
static volatile int ready_fd;

static const char *name_of(long n) { return n >= 0 ? "ok" : strerrorname_np(errno); }
static void said(const char *what, long n) {
  printf("%s: %ld %s\n", what, n, name_of(n));
  fflush(stdout);
}

static long put(pid_t pid, void *to, const void *from, size_t n) {
  struct iovec local = {(void *)from, n}, remote = {to, n};
  return process_vm_writev(pid, &local, 1, &remote, 1, 0);
}
static long get(pid_t pid, void *from, void *to, size_t n) {
  struct iovec local = {to, n}, remote = {from, n};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}
static int mem_of(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  return open(path, O_RDWR);
}

static pid_t start(void (*be)(void)) {
  int pipe_fds[2];
  char c;
  CHECK(pipe(pipe_fds) == 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pipe_fds[0]);
    ready_fd = pipe_fds[1];
    be();
    _exit(0);
  }
  close(pipe_fds[1]);
  CHECK(read(pipe_fds[0], &c, 1) == 1);
  close(pipe_fds[0]);
  return pid;
}
static void ready(void) { CHECK(write(ready_fd, "r", 1) == 1); }
static int end_of(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void compute(void) {
  ready();
  while (word == 0) counter++;
  _exit((int)word);
}
static void sleep_long(void) {
  ready();
  while (word == 0) {
    struct timespec brief = {0, 2000000};
    nanosleep(&brief, NULL);
  }
  _exit((int)word);
}
static int silent[2];
static void read_long(void) {
  char c;
  ready();
  CHECK(read(silent[0], &c, 1) == 1);
  _exit((int)word + c);
}
static void *wait_in_thread(void *unused) {
  while (word == 0) usleep(500);
  return NULL;
}
static void have_threads(void) {
  pthread_t t[3];
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, wait_in_thread, NULL);
  ready();
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  _exit((int)word);
}
static void be_vfork_parent(void) {
  ready();
  if (vfork() == 0) {
    while (word == 0) counter++;
    _exit(0);
  }
  _exit((int)word);
}

static unsigned char *code, *constant, *hidden, *shared, *edge;  // edge: a page, and nothing behind it
static void run_code(void) {
  int (*f)(void) = (int (*)(void))code;
  int first = f();
  ready();
  int now;
  while ((now = f()) == first) counter++;
  _exit(now);
}
static void wait_killed(void) {
  ready();
  for (;;) pause();
}

static void scenes(void) {
  long n = 7;
  pid_t pid = start(compute);
  said("to one that computes", put(pid, (void *)&word, &n, sizeof n));
  printf("ended with %d\n", end_of(pid));
  n = 8;
  pid = start(sleep_long);
  said("to one that sleeps", put(pid, (void *)&word, &n, sizeof n));
  printf("ended with %d\n", end_of(pid));
  n = 9;
  CHECK(pipe(silent) == 0);
  pid = start(read_long);
  said("to one that reads", put(pid, (void *)&word, &n, sizeof n));
  CHECK(write(silent[1], "\1", 1) == 1);
  printf("ended with %d\n", end_of(pid));
  n = 10;
  pid = start(have_threads);
  said("to one with threads", put(pid, (void *)&word, &n, sizeof n));
  printf("ended with %d\n", end_of(pid));
  n = 11;
  pid = start(be_vfork_parent);
  said("to one that waits in vfork", put(pid, (void *)&word, &n, sizeof n));
  printf("ended with %d\n", end_of(pid));
  n = 12;
  pid = start(compute);
  int fd = mem_of(pid);
  said("by its file", pwrite(fd, &n, sizeof n, (off_t)&word));
  printf("ended with %d\n", end_of(pid));
  said("by its file, behind the end", pwrite(fd, &n, sizeof n, (off_t)&word));
  close(fd);

  code = mmap(NULL, 2 * kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  constant = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  hidden = mmap(NULL, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  shared = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  edge = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(edge + kPage, kPage);
  const unsigned char returns_one[] = {0xb8, 1, 0, 0, 0, 0xc3};
  mprotect(code, kPage, PROT_READ | PROT_WRITE);
  memcpy(code, returns_one, sizeof returns_one);
  mprotect(code, kPage, PROT_READ | PROT_EXEC);
  unsigned char number = 77;
  pid = start(run_code);
  said("code that is read-only", put(pid, code + 1, &number, 1));
  fd = mem_of(pid);
  said("… by its file", pwrite(fd, &number, 1, (off_t)(code + 1)));
  printf("ended with %d\n", end_of(pid));
  close(fd);

  pid = start(wait_killed);
  fd = mem_of(pid);
  CHECK(fd >= 0);
  said("nothing", put(pid, (void *)&word, &n, 0));
  said("read-only memory", put(pid, constant, &n, sizeof n));
  said("… by its file", pwrite(fd, &n, sizeof n, (off_t)constant));
  said("… and back", get(pid, constant, (void *)&word, sizeof word) == sizeof word ? word : -1);
  said("no memory", put(pid, (void *)16, &n, sizeof n));
  said("… by its file", pwrite(fd, &n, sizeof n, 16));
  said("without rights", put(pid, hidden, &n, sizeof n));
  said("… read", get(pid, hidden, &n, sizeof n));
  said("… by its file", pwrite(fd, &n, sizeof n, (off_t)hidden));
  said("flags", syscall(SYS_process_vm_writev, pid, 0, 0, 0, 0, 1));
  said("too many", syscall(SYS_process_vm_writev, pid, &n, 5000, &n, 1, 0));
  said("a vector that is not there", syscall(SYS_process_vm_writev, pid, (void *)16, 1, (void *)16, 1, 0));
  struct iovec bad = {(void *)16, 8}, good = {(void *)&word, 8};
  said("from nowhere", process_vm_writev(pid, &bad, 1, &good, 1, 0));
  said("to nobody", put(0x3ffffff, (void *)&word, &n, sizeof n));
  said("from nowhere by its file", pwrite(fd, (void *)16, 8, (off_t)&word));
  for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(i * 7);
  said("much", put(pid, large, large, sizeof large));
  static char back[sizeof large];
  said("… back", get(pid, large, back, sizeof back));
  printf("%s\n", memcmp(large, back, sizeof back) == 0 ? "the same" : "not the same");
  said("much, by its file", pwrite(fd, large + 5, sizeof large - 5, (off_t)large));
  said("… back", pread(fd, back, sizeof back - 5, (off_t)large));
  printf("%s\n", memcmp(large + 5, back, sizeof back - 5) == 0 ? "the same" : "not the same");
  struct iovec three[3] = {{"one", 3}, {"two", 3}, {"three", 5}};
  struct iovec two[2] = {{large, 4}, {large + 100, 7}};
  said("in pieces", process_vm_writev(pid, three, 3, two, 2, 0));
  CHECK(get(pid, large, back, 200) == 200);
  printf("%.4s %.7s\n", back, back + 100);
  CHECK(lseek(fd, (off_t)large, SEEK_SET) == (off_t)large);
  said("in pieces, by its file", writev(fd, three, 3));
  said("… ends at", lseek(fd, 0, SEEK_CUR) - (off_t)large);
  CHECK(get(pid, large, back, 11) == 11);
  printf("%.11s\n", back);
  said("over an edge", put(pid, edge + kPage - 10, large, 100));
  said("… by its file", pwrite(fd, large, 100, (off_t)edge + kPage - 20));
  strcpy((char *)shared, "before");
  said("shared memory", put(pid, shared, "after", 6));
  printf("here: %s\n", shared);
  strcpy((char *)shared, "mine");
  CHECK(get(pid, shared, back, 5) == 5);
  printf("there: %s\n", back);
  kill(pid, SIGTERM);
  printf("ended with %d\n", end_of(pid));
  said("to one that has ended", put(pid, (void *)&word, &n, sizeof n));
  close(fd);

  // One that ends and is not collected.
  word = 0;
  pid = start(compute);
  n = 3;
  said("last", put(pid, (void *)&word, &n, sizeof n));
  siginfo_t info;
  CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0);
  said("to a zombie", put(pid, (void *)&word, &n, sizeof n));
  printf("ended with %d\n", end_of(pid));

  // One that is stopped: it finds the change when it goes on.
  for (int i = 0; i < 2; i++) {
    pid = start(i ? sleep_long : compute);
    int status;
    CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    n = 40 + i;
    said("to one that is stopped", put(pid, (void *)&word, &n, sizeof n));
    said("… where it may not", put(pid, constant, &n, sizeof n));
    long seen = 0;
    CHECK(get(pid, (void *)&word, &seen, sizeof seen) == sizeof seen);
    printf("it has %ld\n", seen);
    CHECK(kill(pid, SIGCONT) == 0);
    printf("ended with %d\n", end_of(pid));
  }
}

// Two that write to each other all the time.
static long slots[64];
static void exchange(void) {
  pid_t other = getppid();
  ready();
  for (long i = 1; i <= 300; i++) CHECK(put(other, &slots[1], &i, sizeof i) == sizeof i);
  while (((volatile long *)slots)[0] != 300) counter++;
  _exit(5);
}
static void both_ways(void) {
  pid_t pid = start(exchange);
  for (long i = 1; i <= 300; i++) CHECK(put(pid, &slots[0], &i, sizeof i) == sizeof i);
  printf("both ways: %d\n", end_of(pid));
  printf("%ld\n", ((volatile long *)slots)[1]);
}

// --- the storm ---

enum { kTargets = 5, kWriters = 3, kRounds = 120 };
static volatile uint64_t mailbox[kWriters][128];

static uint64_t digest(void) {
  uint64_t d = 0;
  for (int i = 0; i < kWriters; i++)
    for (int k = 0; k < 128; k++) d = d * 31 + mailbox[i][k];
  return d;
}
static volatile int signals;
static void on_signal(int signo) { signals++; }

static void target(int kind) {
  uint64_t seen = 0;
  struct timespec brief = {0, 300000};
  signal(SIGUSR1, on_signal);
  for (int round = 0; round < 4000; round++) {
    seen = seen * 33 + digest();
    switch (kind) {
      case 0:
        for (int i = 0; i < 2000; i++) seen += mailbox[i % kWriters][i % 128];
        break;
      case 1:
        nanosleep(&brief, NULL);
        break;
      case 2: {
        pid_t child = fork();
        if (child == 0) _exit((int)digest() & 1);
        int status;
        while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
        break;
      }
      case 3:
        poll(NULL, 0, 1);
        if (round > 60) raise(SIGKILL);
        break;
      default:
        if (round % 16 == 0 && vfork() == 0) _exit(0);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        sched_yield();
        break;
    }
    int done = 0;
    for (int i = 0; i < kWriters; i++) done += mailbox[i][0] == kRounds;
    if (done == kWriters) break;
  }
  _exit((int)(seen & 0x3f));
}

static void storm(void) {
  pid_t targets[kTargets], writers[kWriters];
  for (int i = 0; i < kTargets; i++)
    if ((targets[i] = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      target(i);
    }
  for (int w = 0; w < kWriters; w++)
    if ((writers[w] = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      uint64_t bytes[128];
      for (uint64_t round = 1; round <= kRounds; round++)
        for (int i = 0; i < kTargets; i++) {
          for (int k = 0; k < 128; k++) bytes[k] = round + (uint64_t)k * (uint64_t)w * (k != 0);
          bytes[0] = round;
          long n = put(targets[i], (void *)mailbox[w], bytes, sizeof bytes);
          CHECK(n == sizeof bytes || (n < 0 && errno == ESRCH));
          if (round % 10 == 0) kill(targets[i], SIGUSR1);
          if (round % 17 == 0) {
            uint64_t now[128];
            long got = get(targets[i], (void *)mailbox[w], now, sizeof now);
            CHECK(got < 0 || now[0] == round);
          }
          if (round % 40 == 0 && i == 0) {
            kill(targets[i], SIGSTOP);
            bytes[1] = 5;
            n = put(targets[i], (void *)mailbox[w], bytes, sizeof bytes);
            CHECK(n == sizeof bytes || (n < 0 && errno == ESRCH));
            kill(targets[i], SIGCONT);
          }
        }
      _exit(0);
    }
  for (int w = 0; w < kWriters; w++) printf("writer ended with %d\n", end_of(writers[w]));
  int killed = 0;
  for (int i = 0; i < kTargets; i++) killed += end_of(targets[i]) >= 1000;
  printf("%d killed\n", killed);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    storm();
  } else {
    scenes();
    both_ways();
  }
  return 0;
}
