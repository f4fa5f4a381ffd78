#!/usr/bin/env bash
# catch fork, catch syscall and signals stop at the same places forwards and backwards; a debugger that knows nothing of execve
# stops there, and is told how to go on.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile family <<'C'
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int hits;
void on(int s) { hits += s; }
void here(int i) { hits += i; }
int main(void) {
  signal(SIGUSR1, on);
  signal(SIGUSR2, on);
  for (int i = 0; i < 2; i++) {
    here(i);
    pid_t p = fork();
    if (!p) _exit(i);
    waitpid(p, 0, 0);
    raise(i ? SIGUSR1 : SIGUSR2);
  }
  here(100);
  char *argv[] = {"true", 0};
  pid_t q;
  posix_spawn(&q, "/bin/true", 0, 0, argv, 0);
  waitpid(q, 0, 0);
  system("true");
  getppid();
  here(300);
  execl("/bin/true", "true", (char *)0);
}
C
recorded family 0
serve family
rsp events 61 110 39 >"$T/seen"
[ "$(grep -o 'fork:' "$T/seen" | wc -l)" = 4 ] || fail "forks: $(cat "$T/seen")"
[ "$(grep -oE 'T(1e|1f)( |$)' "$T/seen" | wc -l)" = 2 ] || fail "signals: $(cat "$T/seen")"
grep -q 'syscall_entry:6e T05syscall_return:6e' "$T/seen" || fail "calls: $(cat "$T/seen")"
stop_server

serve family
timeout "$PATIENCE" gdb -nx -q -batch -ex 'set width 0' -ex 'set remotetimeout 1000' -ex 'set remote exec-event-feature-packet off' \
  -ex 'set remote vfork-event-feature-packet off' -ex "target extended-remote 127.0.0.1:$port" \
  -ex 'handle SIGUSR1 SIGUSR2 nostop noprint pass' -ex 'catch fork' -ex 'break here if i == 100' -ex 'continue' -ex 'up 3' \
  -ex 'print i' -ex 'continue' -ex 'up 3' -ex 'print i' -ex 'continue' -ex 'continue' -ex 'continue' -ex 'continue' \
  -ex 'reverse-continue' -ex 'reverse-continue' -ex 'reverse-continue' -ex 'print hits' -ex 'reverse-continue' -ex 'reverse-continue' \
  -ex 'reverse-continue' >"$T/gdb" 2>&1 || fail "gdb: $(cat "$T/gdb")"
times 8 'Catchpoint 1 \(forked process'
printed '^\$1 = 0$'
printed '^\$2 = 1$'
times 2 'Breakpoint 2, here \(i=100\)'
printed 'becomes another one here \(execve\); `backstep replay -p [0-9]+` goes on with it'
times 2 'No more reverse-execution history'
stop_server
# Stepping over forks is stepping.
in_gdb family 'handle SIGUSR1 SIGUSR2 nostop noprint pass' 'break here' 'continue' 'finish' 'next' 'next' 'next' 'next' 'reverse-next' \
  'reverse-next' 'reverse-next' 'info breakpoints'
printed '^17.*raise'
printed '^14.*fork'
printed 'breakpoint already hit 1 time'
ok
