// Two processes send one byte back and forth over two pipes: pipes ROUNDS
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void play(int in, int out, long rounds, int first) {
  char c = 'x';
  for (long i = 0; i < rounds; i++) {
    if (first && write(out, &c, 1) != 1) _exit(1);
    if (read(in, &c, 1) != 1) _exit(1);
    if (!first && write(out, &c, 1) != 1) _exit(1);
  }
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 20000;
  int there[2], back[2], status;
  if (pipe(there) != 0 || pipe(back) != 0) return 1;
  pid_t child = fork();
  if (child == 0) {
    play(there[0], back[1], rounds, 0);
    _exit(0);
  }
  play(back[0], there[1], rounds, 1);
  waitpid(child, &status, 0);
  return status != 0;
}
