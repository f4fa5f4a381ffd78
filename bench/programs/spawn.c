// fork, execve of /bin/true and wait, again and again: spawn TIMES
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long times = argc > 1 ? atol(argv[1]) : 200;
  for (long i = 0; i < times; i++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      execl("/bin/true", "true", (char *)0);
      _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
