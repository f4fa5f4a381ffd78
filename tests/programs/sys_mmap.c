// Mapped files: private and shared, changed on disk and deleted while mapped, remapped, partial pages beyond
// the end, offsets, writes through a shared mapping seen by read, MAP_FIXED pieces, PROT_NONE holes, msync.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static uint64_t digest(const void* at, size_t size) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) sum = (sum ^ ((const unsigned char*)at)[i]) * 1099511628211u;
  return sum;
}

int main(void) {
  enum { kSize = 5 * 4096 + 1000 };
  static unsigned char data[kSize];
  for (int i = 0; i < kSize; i++) data[i] = (unsigned char)next_number();
  int fd = open("m1", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && write(fd, data, kSize) == kSize);

  unsigned char* private_map = mmap(0, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(private_map != MAP_FAILED && memcmp(private_map, data, kSize) == 0 && private_map[kSize] == 0);
  unsigned char* read_only = mmap(0, 8192, PROT_READ, MAP_PRIVATE, fd, 4096 * 2);
  CHECK(read_only != MAP_FAILED && memcmp(read_only, data + 8192, 8192) == 0);
  private_map[100] ^= 0xff;  // own copy
  unsigned char byte;
  CHECK(pread(fd, &byte, 1, 100) == 1 && byte == data[100]);

  unsigned char* shared = mmap(0, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(shared != MAP_FAILED);
  shared[5000] = 0x5a;
  CHECK(msync(shared, kSize, MS_SYNC) == 0 && pread(fd, &byte, 1, 5000) == 1 && byte == 0x5a);
  byte = 0x33;
  CHECK(pwrite(fd, &byte, 1, 6000) == 1 && shared[6000] == 0x33);
  printf("shared %lu\n", digest(shared, kSize));

  // The file is rewritten and deleted; what was mapped shared shows the change, the private copy of touched
  // pages does not. Untouched private pages may show either: they are not read here.
  memset(data, 'n', sizeof data);
  CHECK(pwrite(fd, data, 4096, 0) == 4096 && shared[100] == 'n' && private_map[100] != 'n');
  CHECK(unlink("m1") == 0 && close(fd) == 0);
  printf("after delete %lu %lu\n", digest(private_map, 4096), digest(shared, kSize));
  CHECK(munmap(shared, kSize) == 0);

  // A new file under the same name.
  fd = open("m1", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, 10000) == 0);
  for (int i = 0; i < 3; i++) CHECK(pwrite(fd, "page", 4, i * 4096) == 4);
  unsigned char* again = mmap(0, 3 * 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(again != MAP_FAILED && memcmp(again + 8192, "page", 4) == 0);
  // Rewritten after the mapping was made and read: replay needs what was seen.
  CHECK(pwrite(fd, "EGAP", 4, 4096) == 4);
  printf("page 1 says %.4s, page 2 says %.4s\n", again + 4096, again + 8192);
  close(fd);
  unlink("m1");

  // Pieces of an anonymous reservation.
  unsigned char* area = mmap(0, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(area != MAP_FAILED);
  for (int i = 0; i < 64; i += 2)
    CHECK(mmap(area + i * 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == area + i * 4096);
  for (int i = 0; i < 64; i += 2) area[i * 4096 + i] = (unsigned char)i;
  CHECK(mprotect(area, 64 * 4096, PROT_READ) == 0 && area[62 * 4096 + 62] == 62);
  CHECK(munmap(area + 10 * 4096, 20 * 4096) == 0);
  unsigned char filled[64];
  CHECK(mincore(area, 4096, filled) == 0 && mincore(area + 12 * 4096, 4096, filled) == -1 && errno == ENOMEM);
  CHECK(mmap(area + 12 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
        area + 12 * 4096);
  CHECK(mmap(area + 12 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
            MAP_FAILED &&
        errno == EEXIST);
  CHECK(mmap((void*)123, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED &&
        errno == EINVAL);
  CHECK(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
  CHECK(mmap(0, 4096, PROT_READ, MAP_PRIVATE, 999, 0) == MAP_FAILED && errno == EBADF);
  unsigned char* zero = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, open("/dev/zero", O_RDWR), 0);
  CHECK(zero != MAP_FAILED && zero[5000] == 0 && (zero[5000] = 1));
  unsigned char* both = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(both != MAP_FAILED && both[4096] == 0 && (both[4096] = 9) && both[4096] == 9);
  unsigned char* hint =
      mmap(area, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // taken: goes elsewhere
  CHECK(hint != MAP_FAILED && hint != area);
  unsigned char* big =
      mmap(0, 1ul << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(big != MAP_FAILED && (big[1ul << 35] = 5) == 5 && munmap(big, 1ul << 36) == 0);
  unsigned char* low = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  CHECK((uintptr_t)low < 1ul << 32);
  printf("mmap right\n");
}
