// Limits on memory: RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK. What fits and what does not, to the page where the
// size is known; what is inherited; how a stack that may not grow ends. Prints the same under any recorder.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul
#define MB (1ul << 20)

// Without malloc or stdio: the process must not grow by looking.
static unsigned long pages_now(void) {
  static char text[256];
  int fd = open("/proc/self/statm", O_RDONLY);
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return strtoul(text, NULL, 10);
}

static unsigned long kilobytes(const char* name) {
  static char text[8192];
  int fd = open("/proc/self/status", O_RDONLY);
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  const char* at = strstr(text, name);
  return at ? strtoul(at + strlen(name) + 1, NULL, 10) : 0;
}

static void limit(int which, unsigned long soft) {
  struct rlimit l;
  CHECK(getrlimit(which, &l) == 0);
  l.rlim_cur = soft;
  CHECK(setrlimit(which, &l) == 0);
}
static void no_limit(int which) {
  struct rlimit l;
  CHECK(getrlimit(which, &l) == 0);
  l.rlim_cur = l.rlim_max;
  CHECK(setrlimit(which, &l) == 0);
}

static void* map(unsigned long size, int prot, int flags) {
  return mmap(NULL, size, prot, flags | MAP_ANONYMOUS, -1, 0);
}
static const char* fits(void* p) { return p != MAP_FAILED ? "fits" : strerror(errno); }

static void space(void) {
  unsigned long now = pages_now();
  limit(RLIMIT_AS, (now + 100) * PAGE + 123);
  printf("101 pages: %s\n", fits(map(101 * PAGE, PROT_NONE, MAP_PRIVATE)));
  char* p = map(100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  printf("100 pages: %s\n", fits(p));
  printf("one more: %s\n", fits(map(PAGE, PROT_READ, MAP_SHARED)));
  printf("in place of others: %s\n", fits(mmap(p + PAGE, 20 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)));
  CHECK(munmap(p, 10 * PAGE) == 0);
  char* q = map(5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  printf("after giving back: %s\n", fits(q));
  printf("growing to 11: %s\n", fits(mremap(q, 5 * PAGE, 11 * PAGE, MREMAP_MAYMOVE)));
  q = mremap(q, 5 * PAGE, 10 * PAGE, MREMAP_MAYMOVE);
  printf("growing to 10: %s\n", fits(q));
  printf("shrinking: %s\n", fits(mremap(q, 10 * PAGE, 6 * PAGE, MREMAP_MAYMOVE)));
  char* end = sbrk(0);
  printf("brk by 5 pages: %s\n", syscall(SYS_brk, end + 5 * PAGE) == (long)end ? "no" : "yes");
  printf("brk by 4 pages: %s\n", syscall(SYS_brk, end + 4 * PAGE) == (long)end ? "no" : "yes");
  CHECK(syscall(SYS_brk, end) == (long)end);
  int id = shmget(IPC_PRIVATE, 64 * PAGE, IPC_CREAT | 0600);
  printf("shmat: %s\n", fits(shmat(id, NULL, 0)));
  shmctl(id, IPC_RMID, NULL);
  CHECK(munmap(q, 6 * PAGE) == 0 && munmap(p + 10 * PAGE, 90 * PAGE) == 0);
  no_limit(RLIMIT_AS);
}

static void allocations(void) {
  limit(RLIMIT_AS, pages_now() * PAGE + 256 * MB);
  void* blocks[64];
  int n = 0;
  while (n < 64 && (blocks[n] = malloc(10 * MB))) n++;
  printf("blocks of 10 MB in 256 MB: %d, %s\n", n, strerror(errno));
  while (n > 0) free(blocks[--n]);
  no_limit(RLIMIT_AS);
}

static void* wait_for(void* gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}
static void threads(void) {
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_attr_t attr;
  pthread_t thread[16];
  CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 32 * MB) == 0);
  limit(RLIMIT_AS, pages_now() * PAGE + 150 * MB);
  pthread_mutex_lock(&gate);
  int n = 0, error = 0;
  while (n < 16 && (error = pthread_create(&thread[n], &attr, wait_for, &gate)) == 0) n++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
  printf("threads with 32 MB in 150 MB: %d, %s\n", n, strerror(error));
  no_limit(RLIMIT_AS);
}

static void data(void) {
  char* end = sbrk(0);
  limit(RLIMIT_DATA, kilobytes("VmData:") * 1024 + 16 * MB);
  printf("data: brk by 24 MB: %s\n", syscall(SYS_brk, end + 24 * MB) == (long)end ? "no" : "yes");
  printf("data: brk by 4 MB: %s\n", syscall(SYS_brk, end + 4 * MB) == (long)end ? "no" : "yes");
  CHECK(syscall(SYS_brk, end) == (long)end);
  printf("data: 16 MB and a page: %s\n", fits(map(16 * MB + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE)));
  char* p = map(16 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  printf("data: 16 MB: %s\n", fits(p));
  char* r = map(8 * MB, PROT_READ, MAP_PRIVATE);
  printf("data: 8 MB to read: %s\n", fits(r));
  printf("data: 8 MB shared: %s\n", fits(map(8 * MB, PROT_READ | PROT_WRITE, MAP_SHARED)));
  printf("data: made writable: %s\n", mprotect(r, 8 * MB, PROT_READ | PROT_WRITE) ? strerror(errno) : "yes");
  printf("data: made read-only: %s\n", mprotect(p, 8 * MB, PROT_READ) ? strerror(errno) : "yes");
  printf("data: made writable: %s\n", mprotect(r, 8 * MB, PROT_READ | PROT_WRITE) ? strerror(errno) : "yes");
  r[8 * MB - 1] = 1;
  CHECK(munmap(p, 16 * MB) == 0 && munmap(r, 8 * MB) == 0);
  limit(RLIMIT_DATA, 0);
  printf("data: none, but the hard limit: %s\n", fits(map(MB, PROT_READ | PROT_WRITE, MAP_PRIVATE)));
  no_limit(RLIMIT_DATA);
}

static void rules(void) {
  struct rlimit l, before;
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  l = (struct rlimit){2 * MB, MB};
  printf("soft above hard: %s\n", setrlimit(RLIMIT_AS, &l) ? strerror(errno) : "yes");
  printf("bad address: %s\n", syscall(SYS_setrlimit, RLIMIT_DATA, 1l) ? strerror(errno) : "yes");
  printf("bad address: %s\n", syscall(SYS_getrlimit, RLIMIT_DATA, 0l) ? strerror(errno) : "yes");
  l = (struct rlimit){3000 * MB, before.rlim_max};
  CHECK(prlimit(getpid(), RLIMIT_AS, &l, &before) == 0);
  memset(&l, 0, sizeof l);
  CHECK(syscall(SYS_getrlimit, RLIMIT_AS, &l) == 0);
  printf("set and seen: %lu MB\n", l.rlim_cur / MB);
  CHECK(prlimit(0, RLIMIT_AS, &before, &l) == 0 && l.rlim_cur == 3000 * MB);
  CHECK(prlimit(0, RLIMIT_AS, NULL, NULL) == 0);
  printf("nobody: %s\n", prlimit(0x3ffffff, RLIMIT_AS, NULL, &l) ? strerror(errno) : "yes");
}

static void show(const char* who) {
  char line[256];
  struct rlimit l;
  for (int i = 0; i < 3; i++) {
    CHECK(getrlimit((int[]){RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK}[i], &l) == 0);
    printf("%s: %ld %ld\n", who, (long)l.rlim_cur, (long)l.rlim_max);
  }
  FILE* f = fopen("/proc/self/limits", "r");
  CHECK(f != NULL);
  while (fgets(line, sizeof line, f))
    if (strstr(line, "space") || strstr(line, "data") || strstr(line, "stack")) printf("%s: %s", who, line);
  fclose(f);
  printf("%s: 60 MB: %s\n", who, fits(map(60 * MB, PROT_READ, MAP_PRIVATE)));
  printf("%s: 50 MB: %s\n", who, fits(map(50 * MB, PROT_READ, MAP_PRIVATE)));
  fflush(stdout);
}

static void end_of(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  printf(WIFSIGNALED(status) ? "… died of signal %d\n" : "… ended with %d\n",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  fflush(stdout);
}

static pid_t start(void) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  return child;
}

static void inherited(char** argv) {
  char* const words[] = {argv[0], "show", NULL};
  pid_t child = start();
  if (child == 0) {
    setrlimit(RLIMIT_AS, &(struct rlimit){100 * MB, 200 * MB});
    setrlimit(RLIMIT_DATA, &(struct rlimit){90 * MB, 300 * MB});
    setrlimit(RLIMIT_STACK, &(struct rlimit){3 * MB, 64 * MB});
    pid_t grandchild = start();
    if (grandchild == 0) {
      show("fork");
      execv("/proc/self/exe", words);
    }
    end_of(grandchild);
    _exit(0);
  }
  end_of(child);
  // Of the child alone, although it runs in our memory.
  if ((child = vfork()) == 0) {
    setrlimit(RLIMIT_AS, &(struct rlimit){100 * MB, 200 * MB});
    execv("/proc/self/exe", words);
    _exit(9);
  }
  end_of(child);
  printf("parent: %s\n", fits(map(300 * MB, PROT_READ, MAP_PRIVATE)));
  // No room for the libraries of the new program; not even for itself.
  for (int i = 0; i < 2; i++) {
    if ((child = start()) == 0) {
      close(2);
      limit(RLIMIT_AS, i == 0 ? MB : 16 * PAGE);
      execv("/proc/self/exe", words);
      _exit(9);
    }
    end_of(child);
  }
}

static int __attribute__((noinline)) deep(unsigned long bytes) {
  volatile char frame[8192];
  frame[0] = 1;
  return bytes < sizeof frame ? frame[0] : deep(bytes - sizeof frame) + frame[0];
}

static void stack(void) {
  for (int i = 0; i < 5; i++) {
    pid_t child = start();
    if (child == 0) {
      setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
      if (i == 0) limit(RLIMIT_STACK, 2 * MB), deep(MB), _exit(0);
      if (i == 1) limit(RLIMIT_STACK, MB), deep(2 * MB), _exit(0);
      if (i == 2) limit(RLIMIT_STACK, 40 * MB), deep(30 * MB), _exit(0);
      // Nothing left for it; and again, after something was given back.
      limit(RLIMIT_AS, pages_now() * PAGE + 64 * MB);
      char* p = map(64 * MB, PROT_NONE, MAP_PRIVATE);
      CHECK(p != MAP_FAILED);
      if (i == 4) munmap(p, 16 * MB);
      deep(4 * MB);
      _exit(0);
    }
    end_of(child);
  }
}

int main(int argc, char** argv) {
  if (argc > 1) {
    show(argv[1]);
    return 7;
  }
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  printf("begin\n");
  fflush(stdout);
  rules();
  space();
  allocations();
  data();
  inherited(argv);
  stack();
  threads();
  return 0;
}
