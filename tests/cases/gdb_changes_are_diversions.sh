#!/usr/bin/env bash
# Writing variables and registers and calling functions works, in a copy that the next step in time drops; the user is
# told so once, and history is what it was.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile calls <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int value = 5;
char *describe(int n) { char *text = malloc(100); sprintf(text, "<%d>", n); return text; }
int crash(int *p) { return *p; }
int change(void) { value = 77; return value; }
int shout(void) { puts("shouted"); fflush(stdout); return 1; }
int main(void) {
  value++;
  value++;
  printf("value %d\n", value);
  return 0;
}
C
recorded calls 0
in_gdb calls 'break 11' 'continue' 'print value' 'print describe(12345)' 'print change()' 'print value' \
  'set var value = 1000' 'print value' 'next' 'print value' 'reverse-next' 'print value' 'print shout()' \
  'print crash(0)' 'backtrace 1' 'goto @0' 'continue' 'print value' 'print $rax = 123' 'print $rax' 'stepi' 'continue' 'continue'
printed '^\$1 = 6$'
printed '^\$2 = 0x[0-9a-f]+ "<12345>"'
printed '^\$3 = 77$'
printed '^\$4 = 77$'
printed '^\$5 = 1000$'
printed '^\$6 = 7$'
printed '^\$7 = 6$'
printed '^shouted$'
printed '^\$8 = 1$'
printed 'received signal SIGSEGV'
printed '^\$9 = 6$'
printed '^\$11 = 123$'
printed '^value 7$'
times 1 'history cannot be changed'
# At the change, and not for a call.
[ "$(grep -n 'history cannot be changed' "$T/gdb" | cut -d : -f 1)" -lt "$(grep -n '^\$5 = 1000' "$T/gdb" | cut -d : -f 1)" ] ||
  fail "the line about changes comes too late"
in_gdb calls 'break 11' 'continue' 'print describe(1)' 'next' 'next' 'kill' 'when'
not_printed 'history cannot|Invalid hex'
printed 'no process of the recording is attached'
# A breakpoint on the first instruction of a function that is called.
in_gdb calls 'break 11' 'continue' 'break *describe' 'print describe(9)' 'backtrace' 'finish'
printed 'Breakpoint 2, .*describe \(n='
printed 'function called from gdb'
printed '"<9>"'

# What a called function may do: everything inside the program, printing, looking at the clock; what it may not is told once.
compile busy -pthread <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
int value;
struct triple { long a, b, c; } make(long v) { struct triple t = {v, v + 1, v + 2}; return t; }
double half(double d) { return d / 2; }
int recurse(int n) { return n ? n * recurse(n - 1) : 1; }
int locked(void) { pthread_mutex_lock(&m); int r = ++value; pthread_mutex_unlock(&m); return r; }
int big(void) { char *p = malloc(3000000); memset(p, 7, 3000000); int r = p[2999999]; free(p); return r; }
int opens(void) { FILE *f = fopen("/etc/passwd", "r"); return f ? 1 : -1; }
int clocks(void) { struct timespec t = {0, 0}; return clock_gettime(CLOCK_REALTIME, &t) == 0 && t.tv_sec > 1000 && time(0) > 1000; }
int sleeps(void) { return usleep(1000); }
void *run(void *a) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); return a; }
int main(void) {
  pthread_t t;
  pthread_mutex_lock(&m);
  pthread_create(&t, 0, run, 0);
  usleep(20000);
  value += 10;
  pthread_mutex_unlock(&m);
  value += 10;
  pthread_join(t, 0);
  printf("value %d\n", value);
  return 0;
}
C
recorded busy 0
in_gdb busy 'break 25' 'continue' 'print make(7)' 'print half(5)' 'print recurse(10)' 'print big()' 'print locked()' 'print clocks()' \
  'print sleeps()' 'call (int)puts("said by a call")' 'call (int)printf("number %d\n", 17)' 'call (int)fflush(0)' \
  'print opens()' 'print opens()' 'print value' 'tbreak recurse' 'print recurse(3)' \
  'finish' 'print value' 'next' 'print value' 'delete' 'tbreak 23' 'reverse-continue' 'print locked()' 'reverse-stepi' 'stepi' 'print value'
printed '^\$1 = \{a = 7, b = 8, c = 9\}$'
printed '^\$2 = 2.5$'
printed '^\$3 = 3628800$'
printed '^\$4 = 7$'
printed '^\$5 = 11$'
printed '^\$6 = 1$'
printed '^\$7 = 0$'
printed '^said by a call$'
printed '^number 17$'
times 1 'openat is not done in a copy'
times 2 '^\$1[12] = -1$'
printed '^Value returned is .* = 6$'
printed '^\$[0-9]+ = 20$'
printed 'waits for another thread, and those do not run'
printed 'received signal SIGINT'
printed '^\$[0-9]+ = 0$'
ok
