// Errors are behaviour, too: calls whose answer is known beforehand, each also with every pointer replaced by bad ones (null, nowhere,
// without rights, read-only, running out of its page, not canonical, the kernel's). Printed are result and the bytes
// of the buffer that have changed. All of it several times, since the ways through a recorder differ: in a program without threads, in
// the first and in another thread of one that has some, in memory that is shared with another process, and in a forked child.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kSize = 8192, kPage = 4096, kPattern = 0x5a };
// Markers: a pointer into the buffer, for which bad ones are tried; one that may not be null; one that stays.
#define PTR 0x7ab0000000000000ul
#define P(at) (PTR | 0x10000 | (at))
#define PN(at) (PTR | 0x20000 | (at))
#define PF(at) (PTR | (at))
enum { kFd = 1, kId = 2, kVolatile = 4, kAnyResult = 8, kNoContents = 16 };  // what the result is; contents that differ each time

struct Call {
  const char* name;
  int nr;
  uint64_t args[6];
  struct {
    uint16_t at;
    uint64_t value;
  } words[8];  // in the buffer before the call; an end by at == 0 && value == 0 from the second on
  int flags;
};

static int alone;  // there are no other threads
static char *buffer, *nowhere, *closed, *constant;
static int pipe_read, pipe_write, epoll, event, unix_a, unix_b, timer_fd, listener, queue, semaphores;

static long make(int nr, const uint64_t a[6]) {
  long result;
  register uint64_t r10 __asm__("r10") = a[3];
  register uint64_t r8 __asm__("r8") = a[4];
  register uint64_t r9 __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"((long)nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static void print_result(long result, int flags) {
  if (result < 0 && result > -4096)
    printf(" %s", strerrorname_np(-result) ? strerrorname_np(-result) : "?");
  else if (flags & kFd)
    printf(" fd"), close(result);
  else if (flags & (kId | kAnyResult))
    printf(" ok");
  else
    printf(" %ld", result);
}

static unsigned char before[kSize];

static void print_changes(int flags) {
  if (flags & kNoContents) return;
  for (int i = 0; i < kSize; i++) {
    if ((unsigned char)buffer[i] == before[i]) continue;
    int end = i, sum = 0;
    for (int k = i; k < kSize && k < i + 64; k++)
      if ((unsigned char)buffer[k] != before[k]) end = k;
    for (int k = i; k <= end; k++) sum = sum * 31 + (unsigned char)buffer[k];
    if (flags & kVolatile)
      printf(" [%d]", i / 64);  // somewhere there
    else
      printf(" [%d-%d %08x]", i, end, sum);
    i = end;
  }
}

static void try(const struct Call* c, int which, int how) {
  static const char* const kHow[] = {"", "null", "nowhere", "closed", "constant", "edge", "wild", "kernel"};
  uint64_t a[6];
  memset(buffer, kPattern, kSize);
  for (int i = 0; i < 8 && (i == 0 || c->words[i].at || c->words[i].value); i++) {
    uint64_t value = c->words[i].value;
    if ((value & ~0xffffful) == PTR) value = (uint64_t)buffer + (value & 0xffff);
    memcpy(buffer + c->words[i].at, &value, 8);
  }
  for (int i = 0; i < 6; i++) {
    a[i] = c->args[i];
    if ((a[i] & ~0xffffful) == PTR) a[i] = (uint64_t)buffer + (a[i] & 0xffff);
  }
  if (which >= 0) {
    char* there = (char*)a[which];
    switch (how) {
      case 1: a[which] = 0; break;
      case 2: a[which] = (uint64_t)nowhere; break;
      case 3: a[which] = (uint64_t)closed; break;
      case 4:
        // the same contents, but not to be written to
        CHECK(mprotect(constant, kPage, PROT_READ | PROT_WRITE) == 0);
        memcpy(constant, there, kPage / 2);
        CHECK(mprotect(constant, kPage, PROT_READ) == 0);
        a[which] = (uint64_t)constant;
        break;
      case 5:
        memmove(buffer + kSize - 4, there, 4);
        a[which] = (uint64_t)buffer + kSize - 4;
        break;
      case 6: a[which] = 0x5a5a000000000000ul; break;
      case 7: a[which] = 0xffff888000000000ul; break;
    }
  }
  memcpy(before, buffer, kSize);
  long result = make(c->nr, a);
  printf("%s", c->name);
  if (which >= 0) printf(" %d %s", which, kHow[how]);
  printf(":");
  print_result(result, c->flags);
  print_changes(c->flags);
  printf("\n");
}

#define TS(at, s, n) {at, s}, {(at) + 8, n}
#define FD_PIPE 0x7ac0000000000001ul
#define FD_WRITE 0x7ac0000000000002ul
#define FD_EPOLL 0x7ac0000000000003ul
#define FD_EVENT 0x7ac0000000000004ul
#define FD_UNIX 0x7ac0000000000005ul
#define FD_TIMER 0x7ac0000000000006ul
#define FD_LISTEN 0x7ac0000000000007ul
#define QUEUE 0x7ac0000000000008ul
#define SEMAPHORES 0x7ac0000000000009ul
#define MY_PID 0x7ac000000000000aul
#define MY_TID 0x7ac000000000000bul

static struct Call kCalls[] = {
#include "sys_errors_table.h"
};

static void run_table(void) {
  for (unsigned i = 0; i < sizeof kCalls / sizeof *kCalls; i++) {
    struct Call c = kCalls[i];
    for (int k = 0; k < 6; k++) switch (c.args[k]) {
        case FD_PIPE: c.args[k] = pipe_read; break;
        case FD_WRITE: c.args[k] = pipe_write; break;
        case FD_EPOLL: c.args[k] = epoll; break;
        case FD_EVENT: c.args[k] = event; break;
        case FD_UNIX: c.args[k] = unix_a; break;
        case FD_TIMER: c.args[k] = timer_fd; break;
        case FD_LISTEN: c.args[k] = listener; break;
        case QUEUE: c.args[k] = queue; break;
        case SEMAPHORES: c.args[k] = semaphores; break;
        case MY_PID: c.args[k] = getpid(); break;
        case MY_TID: c.args[k] = gettid(); break;
      }
    try(&c, -1, 0);
    for (int k = 0; k < 6; k++) {
      if ((c.args[k] & ~0xffffful) != PTR || !(c.args[k] & 0x30000)) continue;
      for (int how = c.args[k] & 0x20000 ? 2 : 1; how < 8; how++) try(&c, k, how);
    }
  }
}

#include "sys_errors_scenes.h"

static void everything(const char* where) {
  alone = !strcmp(where, "alone") || !strcmp(where, "child");
  printf("--- %s\n", where);
  run_table();
  run_scenes();
  fflush(stdout);
}

static void* other_thread(void* ignored) {
  everything("other thread");
  return 0;
}

static int stop_pipe[2];
static void* sleeper(void* ignored) {
  char byte;
  (void)!read(stop_pipe[0], &byte, 1);
  return 0;
}

// A buffer between pages without rights, and a read-only page.
static char* make_area(int kind) {
  char* area = mmap(0, 8 * kPage, PROT_NONE, kind | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED && mprotect(area + kPage, kSize, PROT_READ | PROT_WRITE) == 0);
  return area;
}
static void use_area(char* area) {
  buffer = area + kPage;
  closed = area + 4 * kPage;
  constant = area + 6 * kPage;
  CHECK(mprotect(constant, kPage, PROT_READ) == 0);
}

int main(int argc, char** argv) {
  setvbuf(stdout, 0, _IOFBF, 1 << 16);
  nowhere = (char*)0x7000;  // below what can be mapped
  char* shared = make_area(MAP_SHARED);
  use_area(make_area(MAP_PRIVATE));
  prepare_world();
  const int threads = argc < 2 || strcmp(argv[1], "alone");
  everything("alone");
  if (!threads) return clean_world(), 0;
  pthread_t sleeping, other;
  CHECK(pipe(stop_pipe) == 0);
  CHECK(pthread_create(&sleeping, 0, sleeper, 0) == 0);
  everything("first thread");
  char* own = buffer - kPage;
  use_area(shared);
  printf("--- shared memory\n");
  run_table();
  use_area(own);
  CHECK(pthread_create(&other, 0, other_thread, 0) == 0);
  CHECK(pthread_join(other, 0) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    everything("child");
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  printf("child ended with %x\n", status);
  CHECK(write(stop_pipe[1], "x", 1) == 1);
  CHECK(pthread_join(sleeping, 0) == 0);
  clean_world();
  return 0;
}
