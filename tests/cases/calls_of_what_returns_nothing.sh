#!/usr/bin/env bash
# The calls of a function without a result are listed like others.
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

"$BACKSTEP" calls add ./recording >listed || fail "calls of a function that returns nothing"
[ "$(grep -oE 'add\(value=[0-9]+\)  [0-9]+ ticks  from main' listed | grep -oE '=[0-9]+' | tr '\n' ' ')" = "=1 =2 =3 " ] ||
  fail "the calls: $(cat listed)"
[ "$("$BACKSTEP" calls add --json ./recording | grep -c '"ret":null,"end":"returned"')" -eq 3 ] || fail "as JSON"
echo passed
