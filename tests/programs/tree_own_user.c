// A program with one thread and memory that it shares with a child makes a user namespace, which the kernel
// allows only those who have one thread.
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  volatile int* words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(words != MAP_FAILED);
  int ends[2];
  CHECK(pipe(ends) == 0);
  for (int round = 0; round < 3; round++) {
    pid_t child = fork();
    if (child == 0) {
      usleep(20000);
      words[round] = round + 1;
      _exit(write(ends[1], "x", 1) != 1);
    }
    char byte;
    CHECK(child > 0 && read(ends[0], &byte, 1) == 1);
    words[10] += words[round];
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (round == 1) CHECK(unshare(CLONE_NEWUSER) == 0);
  }
  printf("%d\n", words[10]);
  puts("ok");
  return 0;
}
