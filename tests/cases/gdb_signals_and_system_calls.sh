#!/usr/bin/env bash
# A signal stops in front of its delivery, also the ones that came from outside; handlers can be stepped into and back
# out of; system calls can be caught, both ways.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile signals <<'C'
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
volatile int seen, alarms;
void on_usr1(int s) { seen++; }
void on_alarm(int s) { alarms++; }
int main(void) {
  signal(SIGUSR1, on_usr1);
  signal(SIGVTALRM, on_alarm);
  raise(SIGUSR1);
  seen += 10;
  struct itimerval t = {{0, 0}, {0, 2000}};
  setitimer(ITIMER_VIRTUAL, &t, 0);
  while (!alarms) ;
  write(1, "one\n", 4);
  write(1, "two\n", 4);
  raise(SIGUSR1);
  return 0;
}
C
recorded signals 0
in_gdb signals 'handle SIGVTALRM stop print' 'continue' 'print seen' 'print $_siginfo.si_signo' 'backtrace' 'stepi' 'frame' 'next' 'print seen' \
  'reverse-stepi' 'reverse-continue' 'reverse-continue' 'continue' 'continue' 'frame' 'continue' 'print seen' 'continue'
printed 'Program received signal SIGUSR1'
printed '^\$1 = 0$'
printed '^\$2 = 10$'
printed '#. .* main \(\)'
printed 'on_usr1 \(s=[0-9]+\)'
printed 'Program received signal SIGVTALRM'
printed '#0 .*main \(\) at .*signals.c:16'
printed '^\$4 = 11$'
times 4 'Program received signal SIGUSR1'  # the first one: forwards, backwards, forwards
times 2 'No more reverse-execution history'
# Signals that gdb is told to pass over do not stop.
in_gdb signals 'handle SIGUSR1 nostop noprint pass' 'handle SIGVTALRM nostop noprint' 'break on_usr1' 'continue' 'continue' \
  'print alarms' 'reverse-continue' 'print alarms' 'continue' 'continue'
not_printed 'Program received signal'
printed '^\$1 = 1$'
printed '^\$2 = 0$'
in_gdb signals 'handle SIGUSR1 SIGVTALRM nostop noprint' 'catch syscall write' 'continue' 'continue' 'continue' 'up 1' \
  'reverse-continue' 'reverse-continue' 'reverse-continue'
times 3 'call to syscall write'
times 2 'returned from syscall write'
printed 'No more reverse-execution history'
ok
