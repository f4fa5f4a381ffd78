// What the kernel answers to calls on memory that it refuses, and what such a call has changed before it came to
// the part that it refused. Natively, recorded and replayed it must be the same.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { kPage = 4096 };

static sigjmp_buf back;
static void on_fault(int signo) {
  siglongjmp(back, signo);
}
// r: readable, w: writable, b: beyond the end of a file, -: neither.
static char access_to(volatile char* at, int write) {
  int signo = sigsetjmp(back, 1);
  if (signo) return signo == SIGBUS ? 'b' : '-';
  char byte = *at;
  if (write) *at = byte;
  return write ? 'w' : 'r';
}
static void rights(const char* what, char* at, int pages) {
  printf("%s:", what);
  for (int i = 0; i < pages; i++) {
    char can = access_to(at + i * kPage, 0);
    printf(" %c", can == 'r' && access_to(at + i * kPage, 1) == 'w' ? 'w' : can);
  }
  printf("\n");
}
static long said(const char* what, long result) {
  if (result == -1)
    printf("%s: %s\n", what, strerrorname_np(errno));
  else
    printf("%s: done\n", what);
  errno = 0;
  return result;
}
static void* tried(const char* what, void* at) {
  said(what, at == MAP_FAILED ? -1 : 0);
  return at;
}

static void rights_of_files(void) {
  int fd = open("data", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, 4 * kPage) == 0 && pwrite(fd, "data", 4, 0) == 4);
  int reads = open("data", O_RDONLY), writes = open("data", O_WRONLY), path = open("data", O_PATH);
  int folder = open(".", O_RDONLY), ends[2];
  CHECK(pipe(ends) == 0);
  char* shared = mmap(0, kPage, PROT_READ, MAP_SHARED, reads, 0);
  char* private = mmap(0, kPage, PROT_READ, MAP_PRIVATE, reads, 0);
  CHECK(shared != MAP_FAILED && private != MAP_FAILED);
  said("write to what was opened for reading", mprotect(shared, kPage, PROT_READ | PROT_WRITE));
  rights("shared", shared, 1);
  said("write to a private mapping", mprotect(private, kPage, PROT_READ | PROT_WRITE));
  rights("private", private, 1);
  said("with a key", syscall(SYS_pkey_mprotect, shared, kPage, PROT_READ | PROT_WRITE, -1));
  said("with an unknown key", syscall(SYS_pkey_mprotect, private, kPage, PROT_READ, 77));
  // Half of it refuses.
  char* both = mmap(0, 4 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mmap(both + 2 * kPage, kPage, PROT_READ, MAP_SHARED | MAP_FIXED, reads, 0) == both + 2 * kPage);
  said("refused in the middle", mprotect(both, 4 * kPage, PROT_READ | PROT_WRITE));
  rights("first, not the rest", both, 4);

  tried("no descriptor", mmap(0, kPage, PROT_READ, MAP_PRIVATE, -1, 0));
  tried("a closed one", mmap(0, kPage, PROT_READ, MAP_PRIVATE, 999, 0));
  tried("a path", mmap(0, kPage, PROT_READ, MAP_PRIVATE, path, 0));
  tried("a closed one and no length", mmap(0, 0, PROT_READ, MAP_PRIVATE, 999, 0));
  tried("a closed one and no type", mmap(0, kPage, PROT_READ, 0, 999, 0));
  tried("a closed one and a bad offset", mmap(0, kPage, PROT_READ, MAP_PRIVATE, 999, 1));
  tried("no length", mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  tried("no type", mmap(0, kPage, PROT_READ, MAP_ANONYMOUS, -1, 0));
  tried("a folder", mmap(0, kPage, PROT_READ, MAP_PRIVATE, folder, 0));
  tried("a pipe", mmap(0, kPage, PROT_READ, MAP_PRIVATE, ends[0], 0));
  tried("the end of a pipe that writes", mmap(0, kPage, PROT_READ, MAP_PRIVATE, ends[1], 0));
  tried("opened for writing", mmap(0, kPage, PROT_WRITE, MAP_SHARED, writes, 0));
  tried("opened for writing, private", mmap(0, kPage, PROT_READ, MAP_PRIVATE, writes, 0));
  tried("written shared, opened for reading", mmap(0, kPage, PROT_WRITE, MAP_SHARED, reads, 0));
  tried("unknown flag, validated", mmap(0, kPage, PROT_READ, MAP_SHARED_VALIDATE | (1 << 25), fd, 0));
  tried("unknown flag, not validated", mmap(0, kPage, PROT_READ, MAP_SHARED | (1 << 25), fd, 0));
  tried("validated", mmap(0, kPage, PROT_READ, MAP_SHARED_VALIDATE, fd, 0));
  tried("validated, no file", mmap(0, kPage, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0));
  tried("a file that grows down", mmap(0, kPage, PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, fd, 0));
  tried("shared and grows down", mmap(0, kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
  tried("far behind the end", mmap(0, kPage, PROT_READ, MAP_PRIVATE, fd, 1l << 62));
  tried("too long", mmap(0, 1ul << 47, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  tried("much too long", mmap(0, -1ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  tried("a crooked place",
        mmap(both + 1, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  tried("where something is",
        mmap(both, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  // What is refused leaves what was there.
  strcpy(both, "still here");
  tried("refused in place", mmap(both, kPage, PROT_WRITE, MAP_SHARED | MAP_FIXED, reads, 0));
  printf("%s\n", both);
  tried("refused in place", mmap(both, kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, ends[0], 0));
  printf("%s\n", both);
}

static void holes(void) {
  char* at = mmap(0, 8 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(munmap(at + 3 * kPage, kPage) == 0);
  said("into a hole", mprotect(at, 6 * kPage, PROT_READ | PROT_WRITE));
  rights("up to the hole", at, 8);
  said("from a hole", mprotect(at + 3 * kPage, 2 * kPage, PROT_READ | PROT_WRITE));
  rights("nothing", at, 8);
  said("unmap over a hole", munmap(at + 2 * kPage, 3 * kPage));
  rights("gone", at, 8);
  said("unmap nothing", munmap(at + 2 * kPage, kPage));
  said("unmap no length", munmap(at, 0));
  said("unmap a crooked place", munmap(at + 1, kPage));
  said("protect no length", mprotect(at + 3 * kPage, 0, PROT_READ));
  said("protect beyond all", mprotect(at, -1ul - kPage, PROT_READ));
  said("unknown protection", mprotect(at, kPage, 1 << 12));
  said("both ways", mprotect(at, kPage, PROT_READ | PROT_GROWSDOWN | PROT_GROWSUP));
  said("does not grow down", mprotect(at, kPage, PROT_READ | PROT_GROWSDOWN));
  said("does not grow up", mprotect(at, kPage, PROT_READ | PROT_GROWSUP));
  said("advise over a hole", madvise(at, 3 * kPage, MADV_NORMAL));
  said("discard over a hole", madvise(at, 3 * kPage, MADV_DONTNEED));
  said("unknown advice", madvise(at, kPage, 6));
  said("unknown advice", madvise(at, kPage, 77));
  said("unknown advice, no length", madvise(at, 0, 77));
  said("crooked advice", madvise(at + 1, kPage, MADV_NORMAL));
  said("no length", madvise(at, 0, MADV_DONTNEED));
  said("synchronise a hole", msync(at, 3 * kPage, MS_SYNC));
  said("synchronise how", msync(at, kPage, MS_SYNC | MS_ASYNC));
  said("synchronise a crooked place", msync(at + 1, kPage, MS_SYNC));
  unsigned char there[8];
  said("what is there, with a hole", mincore(at, 4 * kPage, there));
  said("what is there, crooked", mincore(at + 1, kPage, there));
  said("what is there, nowhere to say", mincore(at, kPage, (void*)8));
  said("lock a hole", mlock(at, 4 * kPage));
  said("lock how", syscall(SYS_mlock2, at, kPage, 77));
  said("unlock a hole", munlock(at, 4 * kPage));
  said("lock all how", mlockall(77));
}

static void moved(void) {
  char* at = mmap(0, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(at, "one"), strcpy(at + kPage, "two"), strcpy(at + 2 * kPage, "three");
  CHECK(munmap(at + 3 * kPage, kPage) == 0);
  tried("move a crooked place", mremap(at + 1, kPage, kPage, MREMAP_MAYMOVE));
  tried("move to no length", mremap(at, kPage, 0, MREMAP_MAYMOVE));
  tried("move how", mremap(at, kPage, kPage, 77));
  tried("fixed but not moved", mremap(at, kPage, kPage, MREMAP_FIXED, at + kPage));
  tried("over itself", mremap(at, 2 * kPage, 2 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, at + kPage));
  tried("what is not there", mremap(at + 3 * kPage, kPage, 2 * kPage, MREMAP_MAYMOVE));
  tried("more than is there", mremap(at, 4 * kPage, 8 * kPage, MREMAP_MAYMOVE));
  tried("no room", mremap(at, kPage, 2 * kPage, 0));
  tried("twice, private", mremap(at, 0, kPage, MREMAP_MAYMOVE));
  printf("%s %s %s\n", at, at + kPage, at + 2 * kPage);
  // Moved, and the place stays, empty.
  char* other = mremap(at, 2 * kPage, 2 * kPage, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  CHECK(other != MAP_FAILED);
  printf("left '%s' '%s', moved '%s' '%s'\n", at, at + kPage, other, other + kPage);
  tried("left, and of another size", mremap(at, kPage, 2 * kPage, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
  // The same memory twice.
  char* shared = mmap(0, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy(shared + kPage, "shared");
  char* twin = mremap(shared + kPage, 0, kPage, MREMAP_MAYMOVE);
  CHECK(twin != MAP_FAILED);
  printf("twin %s\n", twin);
  strcpy(twin, "changed");
  printf("twin %s\n", shared + kPage);
  tried("twin without leave to move", mremap(shared, 0, kPage, 0));
}

// Natively some may be free: then all of them are taken here, so that it is the same everywhere.
static void huge_pages(void) {
  enum { kHuge = 2 << 20 };
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, rw = PROT_READ | PROT_WRITE;
  for (long n = 0; n < 10000 && mmap(0, kHuge, rw, kind, -1, 0) != MAP_FAILED;) n++;
  errno = 0;
  tried("huge", mmap(0, kHuge, rw, kind, -1, 0));
  tried("huge, short", mmap(0, 1, rw, kind, -1, 0));
  tried("huge, shared", mmap(0, kHuge, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
  tried("huge, of no size there is", mmap(0, kHuge, rw, kind | 5 << 26, -1, 0));
  int memory = memfd_create("huge", MFD_HUGETLB), plain = open("data", O_RDONLY);
  if (memory >= 0) {
    CHECK(ftruncate(memory, kHuge) == 0);
    tried("huge, of a file", mmap(0, kHuge, rw, MAP_SHARED, memory, 0));
    close(memory);
  } else {
    printf("huge, of a file: ENOMEM\n");
  }
  tried("huge, of a file that is not", mmap(0, kHuge, PROT_READ, MAP_PRIVATE | MAP_HUGETLB, plain, 0));
  close(plain);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_fault};
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
  rights_of_files();
  holes();
  moved();
  huge_pages();
  return 0;
}
