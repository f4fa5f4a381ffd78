// tree_generations DEEP MANY: a chain of DEEP forks, each the child of the one before, and MANY children of one parent,
// half of them started by vfork with a program, the others by fork.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int descend(int left, int sum) {
  if (left == 0) {
    dprintf(1, "bottom, sum %d\n", sum);
    return sum;
  }
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) _exit(descend(left - 1, sum + left));
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  int deep = atoi(argv[1]), many = atoi(argv[2]), status, sum = 0, begun = 0;
  dprintf(1, "%d\n", descend(deep, 0));
  while (begun < many) {
    // At most 20 at a time.
    int n = 0;
    for (; n < 20 && begun < many; n++, begun++) {
      pid_t pid = begun % 2 ? fork() : vfork();
      CHECK(pid >= 0);
      if (pid == 0) {
        if (begun % 2 == 0 && begun % 10 == 0) execl("/bin/true", "true", NULL);
        _exit(begun % 100);
      }
    }
    while (n--) {
      CHECK(wait(&status) > 0 && WIFEXITED(status));
      sum += WEXITSTATUS(status);
    }
  }
  dprintf(1, "sum %d\n", sum);
  return 0;
}
