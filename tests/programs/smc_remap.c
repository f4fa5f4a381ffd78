// Other code at the same address: munmap + mmap, mmap MAP_FIXED over it, mremap of code to a new place and
// another mapping moved in, madvise(DONTNEED) that turns code into zeros, files mapped executable.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

typedef uint64_t (*Function)(void);

static void emit(unsigned char* at, uint32_t value) {
  at[0] = 0xb8;
  memcpy(at + 1, &value, 4);
  at[5] = 0xc3;
}
static uint64_t run(unsigned char* at) {
  return ((Function)(void*)at)();
}

int main(void) {
  const int rwx = PROT_READ | PROT_WRITE | PROT_EXEC, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  unsigned char* page = mmap(0, 4096, rwx, anonymous, -1, 0);
  CHECK(page != MAP_FAILED);
  for (uint32_t i = 0; i < 100; i++) {
    emit(page, i);
    CHECK(run(page) == i);
    CHECK(munmap(page, 4096) == 0);
    CHECK(mmap(page, 4096, rwx, anonymous | MAP_FIXED, -1, 0) == page);
    emit(page, i + 500);
    CHECK(run(page) == i + 500);
    CHECK(mmap(page, 4096, rwx, anonymous | MAP_FIXED, -1, 0) == page);
    CHECK(page[0] == 0);
  }

  // Two files with different code at one address, one after the other.
  for (int f = 0; f < 2; f++) {
    unsigned char bytes[4096] = {0};
    emit(bytes, 1111u * (unsigned)(f + 1));
    int fd = open(f ? "code1.bin" : "code0.bin", O_CREAT | O_TRUNC | O_RDWR, 0755);
    CHECK(fd >= 0 && write(fd, bytes, 4096) == 4096);
    close(fd);
  }
  for (int i = 0; i < 40; i++) {
    int fd = open(i % 2 ? "code1.bin" : "code0.bin", O_RDONLY);
    CHECK(fd >= 0);
    CHECK(mmap(page, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == page);
    close(fd);
    CHECK(run(page) == 1111u * (unsigned)(i % 2 + 1));
  }
  unlink("code0.bin");
  unlink("code1.bin");

  // Code moves: the old place gets other code, the new place keeps the old.
  unsigned char* area = mmap(0, 8 * 4096, PROT_NONE, anonymous, -1, 0);
  CHECK(area != MAP_FAILED);
  unsigned char *here = area + 4096, *there = area + 4 * 4096;
  for (uint32_t i = 0; i < 60; i++) {
    CHECK(mmap(here, 4096, rwx, anonymous | MAP_FIXED, -1, 0) == here);
    emit(here, i);
    CHECK(run(here) == i);
    CHECK(mremap(here, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
    CHECK(run(there) == i);
    emit(there, i + 9);
    CHECK(run(there) == i + 9);
  }
  // DONTNEED empties the page: writing new code afterwards must not run the old.
  emit(there, 77);
  CHECK(run(there) == 77);
  CHECK(madvise(there, 4096, MADV_DONTNEED) == 0);
  CHECK(there[0] == 0);
  emit(there, 78);
  CHECK(run(there) == 78);
  printf("remap right\n");
}
