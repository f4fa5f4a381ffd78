#!/usr/bin/env bash
# What it is all for: a crash is recorded, gdb goes to it, and from there back to the store that caused it. Also when
# the program is gone and another one has its name.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
ulimit -c 0
compile guilty <<'C'
#include <stdio.h>
#include <stdlib.h>
struct item { char name[8]; struct item *next; };
struct item *list;
int steps;
void fill(struct item *i, int n) {
  for (int k = 0; k <= n; k++) i->name[k] = 'a';
}
int main(void) {
  for (int i = 0; i < 8; i++) {
    struct item *item = malloc(sizeof *item);
    item->next = list;
    list = item;
  }
  for (volatile int i = 0; i < 100000; i++) steps += i;
  fill(list->next->next, 8);
  for (struct item *i = list; i; i = i->next) steps += i->name[0];
  return 0;
}
C
recorded guilty 139
# A session begins at the crash, unless told otherwise.
AT='--at start' in_gdb guilty 'backtrace' 'continue'
printed '#0 .*_start'
times 1 'Program received signal SIGSEGV'
AT='--at 0%' in_gdb guilty 'monitor when'
printed '^@0:'
# Also of a program that another one became.
"$BACKSTEP" record -q -o rec-wrapped sh -c 'exec "$1"' - "$T/guilty" >/dev/null 2>&1 || true
in_gdb wrapped 'backtrace'
printed '#0 +0x[0-9a-f]+ in main \(\) at .*guilty.c:17'
for round in intact gone; do
  in_gdb guilty 'backtrace' 'print $_siginfo.si_signo' 'print i' 'watch -location list->next->next->next' \
    'reverse-continue' 'backtrace' 'print k' 'continue' 'continue' 'continue'
  printed 'Program received signal SIGSEGV'
  printed '#0 +0x[0-9a-f]+ in main \(\) at .*guilty.c:17'
  printed '^\$1 = 11$'
  printed '#0 +0x[0-9a-f]+ in fill \(.*n=8\) at .*guilty.c:7'
  printed '#1 +0x[0-9a-f]+ in main'
  printed '^\$3 = 8$'
  times 2 'Program received signal SIGSEGV'
  printed 'dies of SIGSEGV here; this is the end of the recording'
  [ $round = intact ] || break
  rm "$T/guilty" "$T/guilty.c"
  compile guilty <<<'int main(void) { return 1; }'
done
ok
