#!/usr/bin/env bash
# The tables of 'sql' hold what 'dump', 'syscalls', 'calls', 'log', 'ps' and the program's own output say, of a program that
# crashes and of one with threads, children, long and broken lines of output, recursion and longjmp; also with the run cut into
# many windows.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
gcc -g -O1 -o inventory "$SRC/examples/demo/inventory.c"
cat >many.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
struct pair { long a, b; } pair;
long total;
static jmp_buf back;
__attribute__((noinline)) long step(long n) { total += n; pair.b = total; return total; }
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) void leap(int n) { if (n & 1) longjmp(back, 1); }
static void handler(int signo) { step(signo); }
static void *work(void *p) { pthread_setname_np(pthread_self(), "worker"); step((long)p); return p; }
int main(void) {
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
  fib(7);
  for (volatile int i = 0; i < 4; i++) if (!setjmp(back)) leap(i);
  static char big[20000];
  memset(big, 'x', sizeof big);
  big[9999] = big[19999] = '\n';
  write(1, big, sizeof big);
  write(1, "a line ", 7), write(2, "an error\n", 9), write(1, "in pieces\n\nand ", 15);
  struct iovec parts[] = {{big, 3000}, {"\nthe end", 8}};
  writev(1, parts, 2);
  pthread_t t;
  pthread_create(&t, 0, work, (void *)5);
  pthread_join(t, 0);
  int fd[2];
  pipe(fd);
  if (!fork()) { step(100); write(fd[1], "done", 4); _exit(3); }
  char answer[8];
  read(fd[0], answer, sizeof answer);
  wait(0);
  step(7);
  access("/nowhere/at/all", 0);
  return 0;
}
C
gcc -g -O1 -w -o many many.c -lpthread
"$BACKSTEP" record -q -o crash ./inventory "$SRC/examples/demo/orders.txt" >crash.out && fail "it did not crash"
"$BACKSTEP" record -q -o tree ./many >tree.out 2>tree.err || fail "many"
for window in '' 300; do
  BACKSTEP_WINDOW=$window "$PYTHON" "$SRC/tests/cases/sql_tables.py" "$BACKSTEP" || fail "windows of ${window:-any} ticks"
done
ok
