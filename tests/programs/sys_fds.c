// Programs that play with file descriptors: new ones are the lowest free, closing 3..1023, close_range and
// closefrom, dup2 over stderr and writing to the copy, closing stdout and opening something in its place,
// the limit RLIMIT_NOFILE. Ours must neither appear nor be hit.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  int first = open("/dev/null", O_RDONLY);
  int second = open("/dev/null", O_RDONLY);
  CHECK(first >= 0 && second > first && close(first) == 0 && open("/dev/null", O_RDONLY) == first);
  for (int fd = 3; fd < 1024; fd++) close(fd);
  CHECK(open("/dev/null", O_RDONLY) == 3);
  CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0 && open("/dev/null", O_RDONLY) == 3);
  closefrom(3);
  CHECK(open("/dev/null", O_RDONLY) == 3);
  // No descriptor above 3 is open, as far as we can see.
  for (int fd = 4; fd < 2000; fd++) CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);

  int saved = dup(2);
  CHECK(saved == 4);
  int file = open("captured", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(dup2(file, 2) == 2);
  fprintf(stderr, "into the file\n");
  CHECK(write(saved, "to the old stderr\n", 18) == 18);
  CHECK(dup2(saved, 2) == 2);
  fprintf(stderr, "stderr is back\n");
  struct stat st;
  CHECK(fstat(file, &st) == 0 && st.st_size == 14);

  int out = dup(1);
  CHECK(write(out, "through a copy of stdout\n", 25) == 25);
  CHECK(close(1) == 0 && open("captured2", O_CREAT | O_TRUNC | O_WRONLY, 0600) == 1);
  CHECK(write(1, "not on stdout\n", 14) == 14);
  CHECK(dup2(out, 1) == 1);
  printf("stdout is back\n");
  fflush(stdout);
  CHECK(dup2(1, 900) == 900 && write(900, "as 900\n", 7) == 7);
  struct rlimit limit = {20, 1 << 20}, old;
  CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
  limit.rlim_max = old.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  int opened = 0;
  while (open("/dev/null", O_RDONLY) >= 0) opened++;
  CHECK(errno == EMFILE);
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 20);
  printf("opened %d until the limit\n", opened);
  CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0 || old.rlim_max > limit.rlim_max);
  unlink("captured");
  unlink("captured2");
  close(2);
  printf("fds right\n");
  fflush(stdout);
  close(0), close(1);
  return 5;
}
