// W^X: a page is written, made executable, run, made writable again and changed, as careful JIT compilers do;
// also code that is seen through two mappings of one memfd (written through one, run through the other).
#define _GNU_SOURCE
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

int main(void) {
  unsigned char* page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  for (uint32_t i = 0; i < 200; i++) {
    CHECK(mprotect(page, 8192, PROT_READ | PROT_WRITE) == 0);
    emit(page + i % 7 * 16, i);
    emit(page + 4096 - 3, i + 1000000);
    CHECK(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0);
    CHECK(((Function)(void*)(page + i % 7 * 16))() == i);
    CHECK(((Function)(void*)(page + 4096 - 3))() == i + 1000000);
  }

  int fd = memfd_create("code", 0);
  CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
  unsigned char* writer = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unsigned char* runner = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  CHECK(writer != MAP_FAILED && runner != MAP_FAILED);
  for (uint32_t i = 0; i < 300; i++) {
    emit(writer + i % 3 * 64, i * 3);
    CHECK(((Function)(void*)(runner + i % 3 * 64))() == i * 3);
  }
  // ... and through the file descriptor.
  for (uint32_t i = 0; i < 50; i++) {
    unsigned char bytes[6];
    emit(bytes, i * 7);
    CHECK(pwrite(fd, bytes, 6, 64) == 6);
    CHECK(((Function)(void*)(runner + 64))() == i * 7);
  }
  printf("w^x right\n");
}
