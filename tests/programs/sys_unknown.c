// System calls that a table may not know: numbers beyond the end, negative ones, the x32 bit, unknown ioctl
// and fcntl commands. None of them may end the program.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  char buffer[256] = {0};
  long numbers[] = {9999, 1000, 512, 547, 340, -1, -2, 0x40000001, 0x7fffffff, 0x100000027};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    errno = 0;
    long result = syscall(numbers[i], buffer, 10, 20);
    printf("%lx: %ld %d\n", numbers[i], numbers[i] == 0x100000027 ? result == getpid() : result, errno);
  }
  int fd = open("/dev/null", O_RDWR);
  CHECK(ioctl(fd, 0xdeadbeef, buffer) == -1 && fcntl(fd, 7777, 5) == -1);
  int pair[2];
  CHECK(pipe(pair) == 0 && ioctl(pair[0], 0x541b, buffer) == 0);
  printf("unknown right\n");
}
