#!/usr/bin/env bash
# Lines that were executed, of loops in which the replay is stopped everywhere, of code that a fault or a signal left in the
# middle, and of code that was never reached: the same in one window and in many, however often the replay is stopped.
source "$(dirname "$0")/lib.bash"
cat >cover.c <<'C'
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static sigjmp_buf out;
static volatile long a, b, c, d, *nowhere;
static void on_fault(int signo) { siglongjmp(out, signo); }
__attribute__((noinline)) void left(void) {
  a = 1;
  *nowhere = 2;
  b = 3; /* never */
  c = 4; /* never */
}
__attribute__((noinline)) void busy(long n) {
  for (long i = 0; i < n; i++) {
    a += i;
    b ^= a;
    c += b;
    d -= c;
  }
}
__attribute__((noinline)) void unused(void) {
  d = 5; /* never */
}
int main(int argc, char **argv) {
  signal(SIGSEGV, on_fault);
  if (sigsetjmp(out, 1) == 0)
    left();
  busy(300000);
  if (argc > 5) unused(); /* partly */
  printf("%ld\n", d);
  return 0;
}
C
gcc -O1 -g -fno-reorder-blocks cover.c -o cover
expect 0 "$BACKSTEP" record -q -o recording "$T/cover"
lines() {  # "LINE executed?" of the program
  expect 0 "$BACKSTEP" coverage --lcov found recording
  sed -n '/SF:.*cover\.c/,/end_of_record/p' found | grep -E '^(DA|FNDA)' | sed 's/,[1-9][0-9]*$/,yes/'
}
lines >plainly
for n in $(grep -n '\* never \*' cover.c | cut -d: -f1); do
  grep -q "^DA:$n,0\$" plainly || fail "line $n was never executed: $(cat plainly)"
done
for n in 8 9 15 16 17 18 27 28 30; do
  grep -q "^DA:$n,yes\$" plainly || fail "line $n was executed: $(cat plainly)"
done
for window in 7777 100000; do
  BACKSTEP_WINDOW=$window lines >windows
  same plainly windows "other lines in windows of $window ticks"
done
for leg in 2e-5 1e-4 1e-3; do
  BACKSTEP_LEG=$leg lines >stopped
  same plainly stopped "other lines with legs of $leg s"
done
ok
