#!/usr/bin/env bash
# lldb works with the server: breakpoints, backtraces, registers, variables, stepping, continue to the end; execve is the end, and
# says how to go on.
source "$(dirname "$0")/lib.bash"
have lldb || skip "lldb is not installed (apt-get install lldb)"
source "$SRC/tests/cases/gdb.bash"
compile work <<'C'
#include <unistd.h>
volatile int total;
int add(int i) {
  total += i;
  return total;
}
int main(int argc, char **argv) {
  for (int i = 1; i < 5; i++) add(10 * i);
  execl("/bin/true", "true", (char *)0);
  return argc + !argv;
}
C
recorded work 0
serve work
in_lldb() {
  local arguments=() command
  for command; do arguments+=(-o "$command"); done
  timeout "$PATIENCE" lldb -x --batch "$T/work" -o "gdb-remote 127.0.0.1:$port" "${arguments[@]}" >"$T/gdb" 2>&1 ||
    { cat "$T/gdb" >&2; fail "lldb ended with $?"; }
}
in_lldb 'breakpoint set --name add' 'continue' 'frame variable i' 'continue' 'frame variable i' 'thread backtrace' 'register read rip rdi' \
  'target variable total' 'thread step-over' 'thread step-over' 'target variable total' 'breakpoint disable 1' 'image list' 'continue'
printed 'i = 10'
printed 'i = 20'
printed 'frame #1: .*main.* at work.c:8'
printed 'rip = 0x[0-9a-f]+ +work`add'
printed 'rdi = 0x0*14$'
printed 'total = 10$'
printed 'total = 30$'
printed 'libc\.so\.6'
printed 'becomes another one here \(execve\); `backstep replay -p 2` goes on with it'
printed 'frame #0: .*execve'
stop_server
ok
