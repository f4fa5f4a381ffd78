#!/usr/bin/env bash
# `replay -p` debugs another process of the tree: a forked child from its fork on, with its parent's past before that; a
# program that execve started, with its own symbols.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
ulimit -c 0
compile tree <<'C'
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int value = 1;
int multiply(int n) { value *= n; return value; }
int main(int argc, char **argv) {
  int status;
  if (argc > 1) {
    value = 99;
    return 7;
  }
  value = 2;
  if (fork() == 0) {
    for (int i = 2; i < 5; i++) multiply(i);
    int *bad = value == 48 ? 0 : &value;
    return *bad;
  }
  wait(&status);
  if (fork() == 0) execl(argv[0], argv[0], "again", (char *)0);
  wait(&status);
  return 0;
}
C
recorded tree 0
in_process() {
  local process=$1 arguments=() command
  shift
  for command; do arguments+=(-ex "$command"); done
  timeout "$PATIENCE" "$BACKSTEP" replay -q -p "$process" "$T/rec-tree" -nx -batch -ex 'set width 0' "${arguments[@]}" >"$T/gdb" 2>&1 ||
    { cat "$T/gdb" >&2; fail "gdb ended with $?"; }
}
in_process 2 'backtrace' 'continue' 'watch value' 'reverse-continue' 'reverse-continue' 'reverse-continue' 'reverse-continue' \
  'reverse-continue' 'monitor when'
printed '#[0-9]+ .* main \(argc=1'
printed 'received signal SIGSEGV'
for v in 12 4 2 1; do printed "^New value = $v\$"; done
printed 'of the parent'
printed 'No more reverse-execution history'
in_process 4 'break main' 'continue' 'print argc' 'next' 'next' 'print value' 'continue'
printed '^\$1 = 2$'
printed '^\$2 = 99$'
printed 'exits with status 7'
in_process 2 'goto event 2' 'when' 'goto end' 'goto start' 'when'
printed '^@[0-9]+:0x[0-9a-f]+, event 2,'
printed '@0:0x'
ok
