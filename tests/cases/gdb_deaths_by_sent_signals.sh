#!/usr/bin/env bash
# A program that died of a signal that was sent to it (abort, raise, kill, from outside) is met at that signal, as one
# that crashed; functions can be called there, and a breakpoint there does not make gdb hang.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
ulimit -c 0
compile dies <<'C'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile int n;
int square(int x) { return x * x; }
int main(int argc, char **argv) {
  if (!strcmp(argv[1], "abort")) abort();
  if (!strcmp(argv[1], "raise")) raise(SIGUSR1);
  if (!strcmp(argv[1], "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(argv[1], "fault")) *(volatile int *)8 = 1;
  write(1, "ready\n", 6);
  if (!strcmp(argv[1], "waits")) pause();
  for (;;) n++;
}
C
for how in abort:ABRT:134 raise:USR1:138 kill:KILL:137 fault:SEGV:139 waits:TERM:143 runs:TERM:143; do
  IFS=: read -r what signal status <<<"$how"
  rm -rf rec-dies
  if [ "$signal" = TERM ]; then
    "$BACKSTEP" record -q -o rec-dies ./dies "$what" >dies.out &
    pid=$!
    comes [ -s dies.out ] || fail "$what does not begin"
    sleep 0.1
    kill -TERM $pid
    got=0
    wait $pid 2>/dev/null || got=$?
    [ $got = $status ] || fail "$what ended with $got"
  else
    recorded dies "$status" "$what"
  fi
  in_gdb dies 'print square(5)' 'print $_siginfo.si_signo' 'print $pc' 'set $here = $pc' 'reverse-stepi' 'reverse-stepi' 'break *$here' 'continue' 'continue' 'continue' \
    'continue' 'delete' 'goto start' 'continue' 'print $pc == $here' 'print square(6)' 'continue'
  printed "Program received signal SIG$signal"
  not_printed 'no such moment|SIGTRAP'
  printed '^\$1 = 25$'
  printed "^\\\$2 = $(kill -l "$signal")\$"
  printed '^\$4 = 1$'
  printed '^\$5 = 36$'
  printed "dies of SIG$signal here; this is the end of the recording"
  [ "$(grep -c "received signal SIG$signal" "$T/gdb")" -ge 3 ] || fail "$what: the signal is hidden"
  # It is told once: behind it is the end.
  case $what in abort | fault)
    in_gdb dies 'continue' 'reverse-stepi' 'goto end' 'stepi'
    times 2 "received signal SIG$signal"
    times 2 "dies of SIG$signal here; this is the end of the recording"
  esac
done
ok
