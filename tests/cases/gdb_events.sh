#!/usr/bin/env bash
# Events in gdb: to the next match and to the last one, of simple ones and of those that are made of several; counted and
# logged. They are the same matches as those of 'backstep count' and 'backstep log'.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile steps -O1 <<'C'
#include <stdio.h>
long total;
__attribute__((noinline)) long twice(long n) { __asm__ volatile("" : "+r"(n)); return 2 * n; }
__attribute__((noinline)) void add(long n) { total += n; }
int main(void) {
  for (long i = 0; i < 10; i++) {
    if (i % 3 == 0) add(twice(i));
    else add(i);
  }
  printf("%ld\n", total);
  return 0;
}
C
recorded steps 0
in_gdb steps 'count call add' 'event call add if $arg0 == 5' 'print n' 'event call twice then call add' 'print n' \
  'event call twice' 'print n' 'reverse-event call twice then call add' 'print n' 'reverse-event call add if $arg0 == 4' 'print n' \
  'log last 2 call twice "n is {n}"' 'log call twice "{n}"' 'event call nothing' 'event' 'count' 'log' \
  'event tick 100000000000' 'when' 'reverse-event call twice then call twice' 'print n' 'reverse-event call main then call nosuch'
printed '^10 times'
grep '^\$' gdb >values
printf '%s\n' '$1 = 5' '$2 = 12' '$3 = 9' '$4 = 12' '$5 = 4' '$6 = 9' >wanted
same wanted values "other places"
printed '  1  n is 6$'
printed '  1  n is 9$'
[ "$(grep -Ec '  1  [0369]$' gdb)" = 4 ] || fail "not four calls of twice: $(cat gdb)"
printed "no function 'nothing'"
printed "no function 'nosuch'"
printed 'event SPEC: for example'
printed 'count SPEC: for example'
printed 'log \[last N\] SPEC'
printed 'there is no match behind here; now at .* 100.0 % of the run'
[ "$("$BACKSTEP" count --json 'call twice then call add' "$T/rec-steps" | field 0.count)" = 4 ] || fail "the shell counts others"
ok
