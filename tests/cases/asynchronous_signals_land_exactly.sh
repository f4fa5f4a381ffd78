#!/usr/bin/env bash
# Timer signals every 100 us into all sorts of code: the program's output depends on each landing place, and every replay,
# under every way of translating, has the same output.
source "$(dirname "$0")/lib.bash"
for i in 1 2 3; do
  NATIVE=no record_replay "async-$i" "$P/sig_async" 150
  for options in --engine-max-block=1 --engine-counter=memory --engine-no-links --engine-cache=64K; do
    replay_again "async-$i" 1 "$options"
  done
done
! cmp -s async-1.out async-2.out || fail "two recordings with the same landings: nothing was tested"
# A loop without any system call, ended by its signals alone.
cat >spin.c <<'C'
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile int n;
static void count(int signo) { (void)signo; n++; }
int main(void) {
  struct itimerval timer = {{0, 2000}, {0, 2000}};
  long spins = 0;
  signal(SIGALRM, count);
  setitimer(ITIMER_REAL, &timer, 0);
  while (n < 20) spins++;
  printf("%ld spins\n", spins);
}
C
cc -O1 -o spin spin.c
NATIVE=no record_replay spinning "$T/spin"
ok
