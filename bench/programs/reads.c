// 500,000 reads of 64 bytes from /dev/zero (or the named file): the cost of a small system call.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 500000;
  int fd = open(argc > 2 ? argv[2] : "/dev/zero", O_RDONLY);
  if (fd < 0) return 1;
  char buffer[64];
  unsigned long sum = 0;
  for (int i = 0; i < count; i++) {
    if (read(fd, buffer, sizeof buffer) <= 0) lseek(fd, 0, SEEK_SET);
    sum += (unsigned char)buffer[i & 63];
  }
  printf("%lu\n", sum);
}
