// Memory files: seals, holes, mapping and writing, /proc/self/fd links, sendfile and copy_file_range between
// files, readv/writev/preadv2/pwritev at offsets, several megabytes in one read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  int fd = memfd_create("scratch", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
  char link[64], name[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long n = readlink(link, name, sizeof name - 1);
  CHECK(n > 0);
  name[n] = 0;
  printf("%s\n", name);
  char* map = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  for (int i = 0; i < 1 << 20; i += 511) map[i] = (char)i;
  char byte;
  CHECK(pread(fd, &byte, 1, 511 * 100) == 1 && byte == (char)(511 * 100));
  CHECK(munmap(map, 1 << 20) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE) == 0);
  CHECK(write(fd, "x", 1) == -1 && errno == EPERM &&
        fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_WRITE));

  int out = open("copy", O_CREAT | O_TRUNC | O_RDWR, 0600);
  off_t from = 1000;
  CHECK(out >= 0 && sendfile(out, fd, &from, 500000) == 500000 && from == 501000);
  loff_t in = 0, at = 600000;
  long copied = copy_file_range(out, &in, out, &at, 100000, 0);
  CHECK(copied == 100000 || errno == EXDEV || errno == EOPNOTSUPP);
  struct stat st;
  CHECK(fstat(out, &st) == 0);
  printf("copied %ld size %ld\n", copied, st.st_size);
  off_t hole = lseek(out, 0, SEEK_HOLE);
  CHECK(hole > 0);

  // Vectors with an empty element and more than the file holds.
  static char a[100], b[3000], c[800000];
  struct iovec parts[4] = {{a, sizeof a}, {0, 0}, {b, sizeof b}, {c, sizeof c}};
  long got = preadv(out, parts, 4, 100);
  CHECK(got > 3100);
  CHECK(a[0] == (1100 % 511 == 0 ? (char)1100 : 0));
  struct iovec two[2] = {{"abc", 3}, {"defg", 4}};
  CHECK(pwritev(out, two, 2, 10) == 7 && preadv2(out, parts, 1, 10, 0) == 100 &&
        memcmp(a, "abcdefg", 7) == 0);

  // A big read: more than any internal buffer.
  int zero = open("/dev/urandom", O_RDONLY);
  enum { kBig = 6 << 20 };
  char* big = malloc(kBig);
  long total = 0;
  while (total < kBig) {
    long m = read(zero, big + total, (size_t)(kBig - total));
    CHECK(m > 0);
    total += m;
  }
  CHECK(pwrite(out, big, kBig, 0) == kBig);
  char* again = malloc(kBig);
  CHECK(pread(out, again, kBig, 0) == kBig && memcmp(big, again, kBig) == 0);
  uint64_t digest = 0;
  for (int i = 0; i < kBig; i++) digest = digest * 31 + (unsigned char)big[i];
  printf("six random megabytes: %lu\n", digest);
  CHECK(unlink("copy") == 0);
  printf("memfd right\n");
}
