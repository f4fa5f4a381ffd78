#!/usr/bin/env bash
# Breakpoints are met forwards and backwards, conditions hold, and history ends at both ends.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile loop <<'C'
#include <stdio.h>
int total;
int add(int i) { total += i; return total; }
int main(void) {
  for (int i = 0; i < 10; i++)
    add(i);
  printf("total %d\n", total);
  return 3;
}
C
recorded loop 3
in_gdb loop 'break add' 'continue' 'continue' 'continue' 'print i' 'reverse-continue' 'print i' 'finish' \
  'reverse-continue' 'reverse-continue' 'reverse-continue' 'delete' 'continue' 'continue'
printed '^\$1 = 2$'
printed '^\$2 = 1$'
printed 'Value returned is \$3 = 1$'
times 3 'Breakpoint 1, add \(i=1\)'
times 2 'Breakpoint 1, add \(i=0\)'
times 3 'No more reverse-execution history'  # once at the start, twice at the end
printed '^total 45$'
printed 'the program exits with status 3 here'

# A condition is looked at in the replaying process; backwards too.
in_gdb loop 'break add if i == 7' 'continue' 'print total' 'break add if i % 4 == 2' 'delete 1' 'reverse-continue' \
  'print i' 'reverse-continue' 'print i' 'reverse-continue'
printed '^\$1 = 21$'
printed '^\$2 = 6$'
printed '^\$3 = 2$'
times 1 'No more reverse-execution history'

# Lines, calls and functions, backwards.
in_gdb loop 'break add if i == 5' 'continue' 'delete' 'reverse-finish' 'print i' 'reverse-next' 'print i' 'next' 'print i' \
  'step' 'print i' 'reverse-step' 'print i' 'reverse-step' 'reverse-step' 'print total' 'tbreak main' 'reverse-continue'
for n in 1 2 3 5; do printed "^\\\$$n = 5\$"; done
printed '^add \(i=5\)'
printed '^\$4 = 6$'
printed '^\$6 = 10$'
printed 'Temporary breakpoint [0-9], main'
ok
