// Code written by the kernel: read, pread, readv, recv into a page that code was executed from.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

typedef uint64_t (*Function)(void);

int main(void) {
  unsigned char* page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  int fd = open("code.bin", O_CREAT | O_TRUNC | O_RDWR, 0644), ends[2], pair[2];
  CHECK(fd >= 0 && pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  for (uint32_t i = 0; i < 200; i++) {
    unsigned char bytes[6] = {0xb8, (unsigned char)i, (unsigned char)(i * 3), 0, 0, 0xc3};
    unsigned char* at = page + (i & 1 ? 4096 - 3 : 64);
    switch (i % 4) {
      case 0:
        CHECK(write(ends[1], bytes, 6) == 6 && read(ends[0], at, 6) == 6);
        break;
      case 1:
        CHECK(pwrite(fd, bytes, 6, i) == 6 && pread(fd, at, 6, i) == 6);
        break;
      case 2: {
        struct iovec parts[2] = {{at, 2}, {at + 2, 4}};
        CHECK(pwrite(fd, bytes, 6, 0) == 6 && lseek(fd, 0, SEEK_SET) == 0 && readv(fd, parts, 2) == 6);
        break;
      }
      default:
        CHECK(send(pair[0], bytes, 6, 0) == 6 && recv(pair[1], at, 6, 0) == 6);
    }
    CHECK(((Function)(void*)at)() == (unsigned char)i + 256u * (unsigned char)(i * 3));
  }
  unlink("code.bin");
  printf("read code right\n");
}
