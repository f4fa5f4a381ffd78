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
ok
