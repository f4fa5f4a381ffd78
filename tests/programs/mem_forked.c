// Memory whose fate is said beforehand: what a child gets of it (madvise), locked pages that are discarded, mappings
// that grow down, memory that is written past its rights.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"

static void said(const char* what, long result) {
  if (result == -1)
    printf("%s: %s\n", what, strerrorname_np(errno));
  else
    printf("%s: %ld\n", what, result);
}

static void show(const char* who, char* at, char* shared) {
  printf("%s:", who);
  for (int i = 0; i < 6; i++) printf(" %s", text_at(at + i * kPage));
  printf(", shared %s\n", text_at(shared));
  fflush(stdout);
}

static void forks(void) {
  char* at = mmap(0, 6 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* shared = mmap(0, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 6; i++) sprintf(at + i * kPage, "page %d", i);
  strcpy(shared, "all");
  said("wipe", madvise(at + kPage, 2 * kPage, MADV_WIPEONFORK));
  said("keep", madvise(at + 2 * kPage, kPage, MADV_KEEPONFORK));
  said("not in a child", madvise(at + 4 * kPage, 2 * kPage, MADV_DONTFORK));
  said("in a child", madvise(at + 5 * kPage, kPage, MADV_DOFORK));
  said("wipe what is shared", madvise(shared, kPage, MADV_WIPEONFORK));
  said("not in a child, shared", madvise(shared, kPage, MADV_DONTFORK));
  fflush(stdout);
  for (int depth = 0; depth < 2; depth++) {
    pid_t child = fork();
    if (child == 0) {
      show("child", at, shared);
      strcpy(at + kPage, "again");
      pid_t grandchild = fork();
      if (grandchild == 0) {
        show("grandchild", at, shared);
        _exit(0);
      }
      waitpid(grandchild, 0, 0);
      show("child again", at, shared);
      _exit(0);
    }
    CHECK(waitpid(child, 0, 0) == child);
    show("parent", at, shared);
  }
}

static void locked(void) {
  char* at = mmap(0, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(at, "locked");
  CHECK(mlock(at, kPage) == 0);
  said("discard what is locked", madvise(at, kPage, MADV_DONTNEED));
  printf("%s\n", text_at(at));
  said("discard it all the same", madvise(at, kPage, MADV_DONTNEED_LOCKED));
  printf("%s\n", text_at(at));
  said("free", madvise(at + kPage, kPage, MADV_FREE));
  int fd = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, kPage) == 0);
  char* file = mmap(0, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  said("free what is a file", madvise(file, kPage, MADV_FREE));
  said("wipe what is a file", madvise(file, kPage, MADV_WIPEONFORK));
  close(fd);
}

static void grows(void) {
  char* area = mmap(0, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char* end = area + (48 << 20);
  CHECK(munmap(area + (1 << 20), 63 << 20) == 0);
  char* at = mmap(end - 2 * kPage, 2 * kPage, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
  CHECK(at == end - 2 * kPage);
  strcpy(at, "top");
  printf("below: %s\n", text_at(at - kPage));
  printf("farther: %s\n", text_at(at - 100 * kPage));
  int signo = sigsetjmp(back, 1);
  if (signo == 0) strcpy(at - 500 * kPage, "written");
  printf("%s, %s\n", signo ? "SIGSEGV" : "grown", text_at(at - 500 * kPage));
  // More than a stack may have.
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  if (limit.rlim_cur <= 16 << 20) printf("too far: %s\n", text_at(at - (20 << 20)));
  // Too near to what is below.
  char* below = mmap(at - 2000 * kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(below == at - 2000 * kPage);
  printf("in the gap: %s\n", text_at(at - 1900 * kPage));
  printf("above the gap: %s\n", text_at(at - 1700 * kPage));
  said("protect all of it", mprotect(at, kPage, PROT_READ | PROT_GROWSDOWN));
  printf("%s\n", text_at(at - 500 * kPage));
}

static void written(void) {
  char* at = mmap(0, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char from[] = "by the kernel", to[16] = "";
  struct iovec local = {from, sizeof from}, remote = {at + 10, sizeof from}, back_to = {to, sizeof from};
  said("write to oneself", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
  printf("%s\n", at + 10);
  said("read from oneself", process_vm_readv(getpid(), &back_to, 1, &remote, 1, 0));
  printf("%s\n", to);
  CHECK(mprotect(at, kPage, PROT_READ) == 0);
  said("where it is read-only", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
  remote = (struct iovec){at + 3 * kPage - 4, 8};
  CHECK(munmap(at + 2 * kPage, kPage) == 0);
  said("where nothing is", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
  remote = (struct iovec){at + 2 * kPage - 4, 14};
  said("up to where nothing is", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
  printf("%.4s\n", at + 2 * kPage - 4);
  said("flags", process_vm_writev(getpid(), &local, 1, &remote, 1, 7));
  int fd = open("/proc/self/mem", O_RDWR);
  CHECK(fd >= 0);
  said("past the rights", pwrite(fd, "FORCED", 7, (off_t)(at + 100)));
  printf("%s\n", at + 100);
  close(fd);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_fault};
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
  forks();
  locked();
  grows();
  written();
  return 0;
}
