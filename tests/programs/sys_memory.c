// The heap and the address space: brk up and down, mremap growing, shrinking and moving, madvise(DONTNEED),
// large malloc/realloc, MAP_GROWSDOWN-free stack growth, mlock, EFAULT at the edges.
#define _GNU_SOURCE
#include <alloca.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static __attribute__((noinline)) int deep(int n) {
  volatile char block[16384];
  block[n % 16384] = 1;
  return n ? deep(n - 1) + block[n % 16384] : 0;
}

int main(void) {
  char* start = sbrk(0);
  CHECK(sbrk(100000) == start);
  memset(start, 7, 100000);
  CHECK(sbrk(-50000) == start + 100000 && sbrk(0) == start + 50000);
  CHECK(sbrk(50000) == start + 50000 && start[49999] == 7);
  char* aligned = (char*)(((uintptr_t)start + 50000 + 4095) & ~4095ul);
  CHECK(aligned[0] == 0);  // pages given back and taken again are zero
  CHECK(brk(start) == 0 && syscall(SYS_brk, 0) == (long)start && syscall(SYS_brk, 16) == (long)start);

  char* map = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(map != MAP_FAILED);
  for (int i = 0; i < 4; i++) map[i * 4096] = (char)('a' + i);
  char* bigger = mremap(map, 4 * 4096, 1000 * 4096, MREMAP_MAYMOVE);
  CHECK(bigger != MAP_FAILED && bigger[3 * 4096] == 'd' && bigger[999 * 4096] == 0);
  CHECK(mremap(bigger, 1000 * 4096, 2 * 4096, 0) == bigger && bigger[4096] == 'b');
  char* target = mmap(0, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mremap(bigger, 2 * 4096, 2 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, target + 4096) == target + 4096);
  CHECK(target[4096] == 'a' && target[8192] == 'b');
  CHECK(mremap(target + 4096, 4096, 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) != MAP_FAILED ||
        errno == EINVAL);
  CHECK(mremap((void*)0x10000000000, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED);
  CHECK(madvise(target + 8192, 4096, MADV_DONTNEED) == 0 && target[8192] == 0);
  madvise(target + 8192, 4096, MADV_FREE);
  // Refused half-way, at a page that is locked: what comes before is discarded all the same.
  char* locked = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(locked, 7, 16384);
  if (mlock(locked + 8192, 4096) == 0) {
    CHECK(madvise(locked, 16384, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(locked[0] == 0 && locked[4096] == 0 && locked[8192] == 7 && locked[12288] == 7);
  }

  // realloc moves large blocks by mremap.
  char* block = malloc(1 << 20);
  for (int i = 20; i < 27; i++) {
    block[(1 << i) - 1] = (char)i;
    block = realloc(block, 2ul << i);
    CHECK(block && block[(1 << i) - 1] == i);
  }
  free(block);
  void* many[500];
  for (int i = 0; i < 500; i++) CHECK((many[i] = malloc(next_number() % 200000)));
  for (int i = 0; i < 500; i += 2) free(many[i]);
  malloc_trim(0);
  for (int i = 1; i < 500; i += 2) free(many[i]);
  CHECK(deep(300) == 300);  // 5 MB of stack

  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  printf("stack limit %lu\n", limit.rlim_cur);
  CHECK(read(0, (void*)0x1000, 0) >= -1);
  int ends[2];
  CHECK(pipe(ends) == 0 && write(ends[1], "0123456789", 10) == 10);
  char* edge = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(munmap(edge + 4096, 4096) == 0);
  long got = read(ends[0], edge + 4096 - 4, 10);  // only four bytes fit
  CHECK(got == -1 || got == 4);
  printf("at the edge %ld\n", got);
  CHECK(write(ends[1], edge + 4096, 1) == -1 && errno == EFAULT);
  CHECK(mlock(edge, 4096) == 0 || errno == ENOMEM || errno == EPERM);
  printf("memory right\n");
}
