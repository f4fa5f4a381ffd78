#!/usr/bin/env bash
# gdb goes through execve, fork and vfork as it does with live programs, and backwards as well: catch exec, catch vfork, catch fork,
# set follow-fork-mode child. The new program has its own symbols, the old one again when one goes back.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile second <<'C'
#include <stdlib.h>
#include <unistd.h>
volatile int total;
void in_second(int i) { total += i; }
int main(int argc, char **argv) {
  in_second(atoi(argv[1]));
  if (argc > 2) execl(argv[0], argv[0], argv[2], (char *)0);
  return total;
}
C
compile first <<'C'
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int hits;
void in_first(int i) { hits += i; }
int main(int argc, char **argv) {
  in_first(1);
  pid_t p = fork();
  if (!p) {
    in_first(10);
    execl(argv[1], argv[1], "5", (char *)0);
  }
  waitpid(p, 0, 0);
  in_first(2);
  char *words[] = {argv[1], "6", 0}, *program = argv[1];
  posix_spawn(&p, program, 0, 0, words, 0);
  waitpid(p, 0, 0);
  in_first(3);
  p = vfork();
  if (!p) _exit(3);
  waitpid(p, 0, 0);
  in_first(4);
  execl(argv[1], argv[1], "7", "8", (char *)0);
}
C
recorded first 8 "$T/second"
# The very states, at the same control points, in both directions.
serve first
rsp across >"$T/seen"
grep -q '^fork vfork vforkdone vfork vforkdone exec exec end$' "$T/seen" || fail "events: $(cat "$T/seen")"
stop_server

in_gdb first 'set breakpoint pending on' 'catch exec' 'catch vfork' 'catch fork' 'break in_first' 'continue' 'continue' 'continue' 'continue' 'continue' 'continue' \
  'continue' 'break in_second' 'print hits' 'continue' 'print (int)$_siginfo.si_signo' 'info symbol $pc' 'print total' 'continue' \
  'backtrace' 'continue' 'continue' 'info breakpoints' 'continue'
for i in 1 2 3 4; do printed "^Breakpoint 4, in_first \(i=$i\)"; done
times 1 'Catchpoint 3 \(forked process [0-9]+\)'
times 2 'Catchpoint 2 \(vforked process [0-9]+\)'
times 2 "Catchpoint 1 \(exec'd $T/second\)"
times 2 "is executing new program: $T/second"
printed '^\$1 = 6$'
printed '^_start in section'
printed 'Breakpoint 5, in_second \(i=7\)'
printed '#1 .* main \(argc=3, argv='
printed 'Breakpoint 5, in_second \(i=8\)'
printed 'exec, program "'
printed 'exits with status 8 here'

# Without a catchpoint `continue` goes on in the new program, and `reverse-continue` in the old one.
in_gdb first 'continue' 'break in_second' 'reverse-continue' 'reverse-continue' 'set breakpoint pending on' 'break in_first' 'reverse-continue' 'backtrace' \
  'print hits' 'info sharedlibrary' 'reverse-continue' 'reverse-continue' 'reverse-continue' 'reverse-continue' 'continue'
printed 'exits with status 8 here'
printed 'Breakpoint 1, in_second \(i=8\)'
printed 'Breakpoint 1, in_second \(i=7\)'
printed "is executing new program: $T/first"
printed 'Breakpoint 2, in_first \(i=4\)'
printed '#1 .* main \(argc=2, argv='
printed '^\$1 = 6$'
printed 'Yes .*libc\.so'
for i in 3 2; do printed "^Breakpoint 2, in_first \(i=$i\)"; done
times 2 'Breakpoint 2, in_first \(i=1\)'
times 2 'No more reverse-execution history'

# Catchpoints backwards: behind forks as forwards, and where the old program calls execve.
in_gdb first 'continue' 'catch exec' 'catch vfork' 'catch fork' 'reverse-continue' 'backtrace' 'reverse-continue' 'backtrace' \
  'reverse-continue' 'backtrace 1' 'reverse-continue' 'reverse-continue' 'reverse-continue'
times 1 "Catchpoint 1 \(exec'd $T/second\), .*execve"
times 1 "Catchpoint 1 \(exec'd $T/first\), .*execve"
printed '#2 .* main \(argc=2, argv='
times 2 'Catchpoint 2 \(vforked process'
times 1 'Catchpoint 3 \(forked process'

# The call of execve itself, both ways: as a system call, and by a breakpoint on its instruction. (The first one is made by a
# child of posix_spawn, which has gone with it.)
in_gdb first 'set breakpoint pending on' 'break in_second' 'catch syscall execve' 'continue' 'set $call = (long)$pc' 'eval "break *%#lx", $call' 'continue' 'continue' \
  'continue' 'reverse-continue' 'print $pc == $call' 'reverse-continue' 'reverse-continue' 'reverse-continue'
times 3 'Catchpoint 2 \(call to syscall execve\)'
times 3 'Breakpoint 3, 0x.* in .*execve'
times 1 '^backstep: call to syscall execve'
times 1 "is executing new program: $T/second"
times 1 "is executing new program: $T/first"
printed 'Breakpoint 1, in_second \(i=7\)'
printed '^\$1 = 1$'

# Single steps go over forks and spawns both ways, and stop where a program begins.
in_gdb first 'break in_first if i == 2' 'continue' 'finish' 'next' 'next' 'next' 'next' 'next' 'reverse-next' 'reverse-next' 'reverse-next' \
  'reverse-next' 'reverse-next'
times 2 '^16.*posix_spawn'
times 2 '^19.*vfork'
in_gdb first 'catch exec' 'continue' 'reverse-stepi' 'stepi' 'reverse-stepi' 'reverse-stepi' 'reverse-continue' 'stepi'
times 2 'the program begins here \(execve\)'
printed "exec'd $T/first.*execve"
times 2 "exec'd $T/second"

# The child of a fork: its past is its parent's.
in_gdb first 'set follow-fork-mode child' 'break in_first' 'continue' 'continue' 'info inferiors' 'info threads' 'watch hits' 'continue' \
  'reverse-continue' 'reverse-continue' 'reverse-continue' 'reverse-continue' 'delete 2' 'set breakpoint pending on' 'break in_second' 'continue' 'continue' \
  'reverse-continue'
printed 'Breakpoint 1, in_first \(i=10\)'
printed '^\* 2 +process'
not_printed 'Thread 2\.2'
printed '^New value = 11'
printed '^New value = 0$'
printed 'Breakpoint 3, in_second \(i=5\)'
printed "is executing new program: $T/first"
in_gdb first 'set follow-fork-mode child' 'break in_first' 'continue' 'finish' 'next' 'print p' 'next' 'reverse-next' 'reverse-next' \
  'info threads' 'reverse-next' 'reverse-continue'
printed '^\$1 = 0$'
times 2 '^9.*if \(!p\)'
times 2 '^8.*fork\(\)'
times 2 'in_first \(i=1\)'
# … of a vfork: from its execve on.
in_gdb first 'break in_first if i == 2' 'continue' 'set follow-fork-mode child' 'set breakpoint pending on' 'break in_second' 'catch exec' 'continue' 'continue' \
  'backtrace' 'delete' 'reverse-continue' 'continue'
printed "exec'd $T/second"
printed 'in_second \(i=6\)'
printed '#1 .* main \(argc=2, argv='
printed 'process #1 has started this program'
printed 'exits with status 6 here'
# What was not recorded is told.
"$BACKSTEP" record -q --no-follow -o "$T/rec-alone" "$T/first" "$T/second" >/dev/null || true
in_gdb alone 'set follow-fork-mode child' 'continue' 'set follow-fork-mode parent' 'inferior 1' 'run' 'break in_first' 'reverse-continue' \
  'reverse-continue'
printed 'nothing more of process [0-9]+ was recorded'
printed 'in_first \(i=4\)'

# A thread that executes a program ends all others; backwards they are there again.
compile threads <<'C'
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
volatile int n;
char *self;
void *count(void *p) { for (;;) n++; return p; }
void *leave(void *p) { n = -1000; execl(self, self, "x", (char *)0); return p; }
int main(int argc, char **argv) {
  pthread_t a, b;
  self = argv[0];
  if (argc > 1) { n = 100; return 4; }
  pthread_create(&a, 0, count, 0);
  while (!n) sched_yield();
  pthread_create(&b, 0, leave, 0);
  pthread_join(b, 0);
}
C
recorded threads 4
in_gdb threads 'break main' 'continue' 'continue' 'print argc' 'info threads' 'watch n if n > 50' 'continue' 'reverse-continue' 'delete' 'catch exec' \
  'reverse-continue' 'backtrace' 'info threads' 'watch n if self != 0' 'reverse-continue' 'print 5000 + (n != 100)' 'delete' 'continue' 'info threads'
printed '^\$1 = 2$'
printed '^New value = 100$'
printed "exec'd .*threads\), .*execve"
printed '#2 .* leave \(p='
printed 'count \(p='
printed 'hit Hardware watchpoint 4: n'
printed '= 5001$'
printed 'exits with status 4 here'
printed '^\* [0-9]+ .*_exit'

mi() { timeout "$PATIENCE" "$PYTHON" -B "$SRC/tests/cases/mi.py" "$@" || fail "mi $1"; }
mi processes "$T/second" "$BACKSTEP" replay -q "$T/rec-first" -nx -i=mi
ok
