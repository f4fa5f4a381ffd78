#!/usr/bin/env bash
# A control point that a log line begins with is an event that matches once.
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >list.c <<'C'
#include <stdlib.h>
struct node { long value; struct node* next; };
struct node* list;
__attribute__((noinline)) void add(long value) {
  struct node* n = malloc(sizeof *n);
  n->value = value;
  n->next = list;
  list = n;
}
int main(void) {
  for (long i = 1; i < 4; i++) add(i);
  return 0;
}
C
gcc -g -O1 -o list list.c
"$BACKSTEP" record -q -o recording ./list

"$BACKSTEP" log list.c:8 ./recording | awk '{print $1}' >points
[ "$(wc -l <points)" -eq 3 ] || fail "line 8 is executed three times: $(cat points)"
mapfile -t points <points
[ "$("$BACKSTEP" count "${points[@]}" "${points[0]} in [0,1)" ./recording | awk '{print $1}' | tr '\n' ' ')" = "1 1 1 0 " ] ||
  fail "the points: $("$BACKSTEP" count "${points[@]}" ./recording)"
[ "$("$BACKSTEP" log "${points[1]}" '{value}' ./recording)" = "$("$BACKSTEP" log 'list.c:8 if value == 2' '{value}' ./recording)" ] ||
  fail "values there"
echo passed
