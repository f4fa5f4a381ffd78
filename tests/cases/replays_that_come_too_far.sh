#!/usr/bin/env bash
# Long ways are replayed by code that only counts ticks, until a timer says that the goal may be near. If timers are late (here:
# always) a replay comes too far, over the goal and over signals and turns on the way; it is made again, and nobody notices.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile work -O1 <<'C'
#include <stdio.h>
#include <sys/time.h>
#include <signal.h>
static volatile long alarms;
static unsigned long sum;
static void on_alarm(int signo) { alarms += signo; }
__attribute__((noinline)) unsigned long step(unsigned long x) { return x * 6364136223846793005ul + alarms; }
int main(void) {
  signal(SIGALRM, on_alarm);
  struct itimerval often = {{0, 4000}, {0, 4000}};
  setitimer(ITIMER_REAL, &often, 0);
  for (long i = 0; i < 30000000; i++) {
    sum ^= step(sum + i);
    if (i % 30000 == 12345) printf("at %ld\n", i), fflush(stdout);
  }
  printf("%lu\n", sum);
  return 0;
}
C
recorded work 0
ask() {  # the answers of a session, by name
  expect 0 "$BACKSTEP" count --json 'call step' 'call on_alarm' 'signal' 'call step if $arg0 % 1000 == 0' 'tick 30000000' \
    'every 1e6' 'call step in [1000000,20000000)' "$T/rec-work"
  cat out
  expect 0 "$BACKSTEP" log --json 'call on_alarm' '{alarms} {sum}' "$T/rec-work"
  cat out
  expect 0 "$BACKSTEP" log --json --last 3 'call step if $arg0 % 512 == 0' '{$arg0}' "$T/rec-work"
  cat out
}
ask >plainly
export BACKSTEP_LEG=1e-3
ask >too-far
same plainly too-far "other answers when replays come too far"
[ "$(grep -c '"at"' plainly)" -gt 3 ] || fail "there were too few matches: $(cat plainly)"
visit() {
  in_gdb work 'goto 20%' 'print sum' 'goto 70%' 'print sum' 'goto 40%' 'print sum' 'break on_alarm' 'reverse-continue' \
    'print alarms' 'monitor stored'
}
# Forwards, over signals that nobody stops for, and with what the program writes on the way.
pass() { in_gdb work 'break step if x == 12345' 'continue' 'monitor stored'; }
visit
printed ' [1-9][0-9]* replays came too far'
grep '^\$' gdb >too-far
pass
printed ' [1-9][0-9]* replays came too far'
grep -E '^at [0-9]+|^[0-9]+$|exited' gdb >too-far-forwards
unset BACKSTEP_LEG
pass
grep -E '^at [0-9]+|^[0-9]+$|exited' gdb >plainly
same plainly too-far-forwards "another output when replays come too far"
[ "$(grep -c "^at" plainly)" = 1000 ] || fail "it wrote something else: $(cat gdb)"
visit
grep '^\$' gdb >plainly
same plainly too-far "another state when replays come too far"
ok
