// Processes that depend on each other in every way that the kernel carries over: the order numbers of the log must
// tell what came first. Channels are used in turn, so that the n-th use at one end belongs to the n-th at the other.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRounds = 200 };

static void must(int ok, const char *what) {
  if (ok) return;
  perror(what);
  exit(1);
}

static volatile sig_atomic_t signals;
static void count(int signo) {
  (void)signo;
  signals++;
}

int main(void) {
  int to[2], from[2];
  must(pipe(to) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, from) == 0, "pipe");
  must(dup2(to[0], 100) == 100 && dup2(to[1], 101) == 101 && dup2(from[0], 102) == 102 && dup2(from[1], 103) == 103,
       "dup2");
  // 101 -> 100 by a pipe, 103 -> 102 by a socket.
  pid_t echo = fork();
  if (echo == 0) {
    char c;
    for (int i = 0; i < kRounds; i++) must(read(100, &c, 1) == 1 && send(103, &c, 1, 0) == 1, "echo");
    _exit(7);
  }
  for (int i = 0; i < kRounds; i++) {
    char c = 'a';
    must(write(101, &c, 1) == 1 && recv(102, &c, 1, 0) == 1, "ping");
  }
  int status;
  must(waitpid(echo, &status, 0) == echo && WEXITSTATUS(status) == 7, "wait");
  // A signal, and a file that is waited for.
  sigset_t block, old;
  sigemptyset(&block);
  sigaddset(&block, SIGUSR1);
  sigprocmask(SIG_BLOCK, &block, &old);
  signal(SIGUSR1, count);
  pid_t victim = fork();
  if (victim == 0) {
    while (!signals) sigsuspend(&old);
    must(close(open("order.file", O_CREAT | O_EXCL | O_WRONLY, 0600)) == 0, "create");
    _exit(0);
  }
  kill(victim, SIGUSR1);
  while (access("order.file", F_OK) != 0) usleep(100);
  unlink("order.file");
  must(waitpid(victim, &status, 0) == victim, "wait");
  // Two write to one output at the same time, many times.
  fflush(stdout);
  for (int k = 0; k < 2; k++)
    if (fork() == 0) {
      char line[32];
      usleep(20000);  // both are there
      for (int i = 0; i < 10 * kRounds; i++) {
        int n = snprintf(line, sizeof line, "%c %d\n", 'A' + k, i);
        must(write(i % 7 ? 1 : 2, line, (size_t)n) == n, "write");
        if (i % 32 == 0) usleep(1);
      }
      _exit(0);
    }
  while (wait(&status) > 0) {
  }
  return 0;
}
