#!/usr/bin/env bash
# A crash after 30 s of CPU time, whose cause is a store 20 s before it: found in the first session, and again in a second
# one, which begins at the crash at once. (The seconds are printed, not asserted.)
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/cases/gdb.bash"
ulimit -c 0
export LIMIT=400
compile late -O2 -fno-optimize-sibling-calls <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
struct item { char name[8]; struct item *next; } *list, *victim;
unsigned table[1 << 16];
static void compute(double until) {
  for (unsigned seed = 1; clock() < until * CLOCKS_PER_SEC;)
    for (int i = 0; i < 10000000; i++) {
      seed = seed * 1664525 + 1013904223;
      table[seed >> 16] += seed;
    }
}
__attribute__((noinline)) void name_it(struct item *i, const char *name) { memcpy(i->name, name, strlen(name) + 1); }
int main(void) {
  for (int i = 0; i < 8; i++) {
    struct item *item = calloc(1, sizeof *item);
    item->next = list;
    list = item;
  }
  victim = list->next->next;
  compute(10);
  name_it(victim, "overlong-name");
  compute(30);
  int n = 0;
  for (struct item *i = list; i; i = i->next) n += i->name[0];
  return n;
}
C
recorded late 139
find_it() {
  local start=$SECONDS
  in_gdb late 'watch -location victim->next' 'reverse-continue' 'backtrace' 'monitor when' 'continue' 'continue'
  say "session $1: $((SECONDS - start)) s"
  printed '#[01] .* in name_it|^#[01] +name_it'
  printed '#[12] .*main \(\) at .*late.c'
  times 2 'Program received signal SIGSEGV'
  grep -E '^@[0-9]+' "$T/gdb" >"when.$1"
}
find_it 1
find_it 2
same when.1 when.2 "another moment in the second session"
ok
