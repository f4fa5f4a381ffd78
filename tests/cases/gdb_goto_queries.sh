#!/usr/bin/env bash
# 'goto current backward store where …' in gdb: the session goes there, by itself and as 'monitor goto'; moments and bookmarks
# are what they were, also first and last by themselves, and a bookmark that is called current.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile steps <<'C'
#include <stdio.h>
long total;
long twice(long n) { return 2 * n; }
void add(long n) { total += n; }
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
in_gdb steps 'goto first forward func_enter 4 where func=<add> and n >= 0' 'print n' \
  'goto current backward func_enter where stack=<*,main,twice> and n > 0' 'goto current backward func_enter 3 where func=<add>' 'print n' \
  'goto last backward store 2 where addr=&total' 'print total' 'stepi' 'print total' 'backtrace' \
  'goto current forward store where addr=&total' 'goto current forward store where addr=&total' 'print total' \
  'goto current backward line where src=<steps.c:7> and i = 6' 'print i' \
  'goto current forward func_enter 99 where func=<add>' 'print i' 'goto current forward nothing' 'print i' \
  'bookmark current' 'goto first' 'when' 'goto current' 'print i' 'goto last' 'when' 'goto 50%' \
  'monitor goto first forward func_enter 2 where func=<twice>' 'maintenance flush register-cache' 'goto current forward line where func=<twice>' 'print n'
grep '^\$' gdb >values
printf '%s\n' '$1 = 6' '$2 = 0' '$3 = 37' '$4 = 45' '$5 = 45' '$6 = 6' '$7 = 6' '$8 = 6' '$9 = 6' '$10 = 3' >wanted
same wanted values "other places"
printed '#0 .* add \(n=8\)'
printed '^@0:0x.* 0.0 % of the run'
printed '100.0 % of the run'
printed '^there is no such moment'
printed 'there are only'
printed 'what to look for is expected here'
ok
