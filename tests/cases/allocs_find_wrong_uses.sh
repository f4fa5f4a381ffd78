#!/usr/bin/env bash
# 'allocs --errors' finds loads and stores after the free, beyond both ends of a block, and of memory that nobody has written, with the
# stacks of the access, of the free and of the allocation; and says nothing where all is well: string functions that read whole
# vectors, structures with gaps that are copied, realloc and calloc, memory that is given out again.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >uses.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct gap { char c; long n; };
static volatile long sum;
__attribute__((noinline)) void release(char *p) { free(p); }
__attribute__((noinline)) char look(volatile char *p) { return *p; }
__attribute__((noinline)) void put(volatile char *p) { *p = 1; }
__attribute__((noinline)) char *make(size_t n) { return malloc(n); }
static void *thread(void *p) { for (int i = 0; i < 50; i++) { char *q = malloc(100 + i); memset(q, i, 100 + i); free(q); } return p; }
static void fine(void) {
  for (int n = 1; n < 200; n++) {
    char *s = malloc(n);
    memset(s, 'x', n - 1);
    s[n - 1] = 0;
    sum += (long)strlen(s) + (strchr(s, 'y') != 0) + (memchr(s, 'z', n) != 0);
    char *t = strdup(s);
    sum += strcmp(s, t);
    t = realloc(t, n + 1000);
    sum += t[n - 1];
    free(s), free(t);
  }
  struct gap *a = malloc(sizeof *a), *b = malloc(sizeof *b);
  a->c = 1, a->n = 2;
  *b = *a;
  sum += b->c + b->n;
  free(a), free(b);
  int *z = calloc(1000, sizeof *z);
  for (int i = 0; i < 1000; i++) sum += z[i];
  free(z);
  char *in = malloc(100);
  if (read(0, in, 100) > 0) sum += in[0];
  free(in);
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, thread, NULL);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  printf("%ld\n", sum);
}
int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  char *p = make(40);
  memset(p, 0, 40);
  if (!strcmp(what, "fine")) fine();
  if (!strcmp(what, "after")) { release(p); return look(p + 20); }
  if (!strcmp(what, "after_store")) { release(p); put(p + 20); return 0; }
  if (!strcmp(what, "over")) put(p + 40);
  if (!strcmp(what, "over_load")) sum = look(p + 41);
  if (!strcmp(what, "under")) sum = look(p - 1);
  if (!strcmp(what, "copy")) { char *q = make(30); memcpy(q, p, 40); sum = q[0]; }
  if (!strcmp(what, "fresh")) { char *q = make(50); q[0] = 1; sum = look(q + 7); }
  if (!strcmp(what, "fresh_realloc")) { p = realloc(p, 5000); sum = look(p + 39) + look(p + 40); }
  if (!strcmp(what, "kernel")) { release(p); if (read(0, p, 8) < 0) return 1; return 0; }
  free(p);
  return 0;
}
C
gcc -g -O1 -w -fno-builtin -pthread -o uses uses.c
run() { echo some words | "$BACKSTEP" record -q -o "$T/$1" ./uses "$1" >/dev/null 2>&1 || true; }
is() { [ "$(field "$1" <"$T/report")" = "$2" ] || { cat "$T/report" >&2; fail "$3: $1 is not $2"; }; }
run fine
expect 0 "$BACKSTEP" allocs --uninitialised "$T/fine"
# one WHAT KIND ACCESS FUNCTION: exactly this one.
one() {
  run "$1"
  expect 1 "$BACKSTEP" allocs --uninitialised --json "$T/$1"
  cp "$T/out" "$T/report"
  [ "$(field errors <"$T/report" | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)))')" = 1 ] || { cat "$T/report" >&2; fail "$1: not one error"; }
  is errors.0.kind "$2" "$1"
  is errors.0.access "$3" "$1"
  is errors.0.stack.0.function "$4" "$1"
  is errors.0.block.allocated.stack.1.function make "$1"
}
one after "use after free" load look
is errors.0.block.freed.stack.1.function release after
is errors.0.size 1 after
one after_store "use after free" store put
one over overrun store put
one over_load overrun load look
one under underrun load look
one fresh "uninitialised read" load look
run fresh_realloc
expect 0 "$BACKSTEP" allocs --errors "$T/fresh_realloc"
expect 1 "$BACKSTEP" allocs --uninitialised --json "$T/fresh_realloc"
cp "$T/out" "$T/report"
is errors.0.kind "uninitialised read" fresh_realloc
is errors.0.block.size 5000 fresh_realloc
"$PYTHON" -c 'import json, sys; e = json.load(open(sys.argv[1]))["errors"]; sys.exit(not (len(e) == 1 and e[0]["address"] - e[0]["block"]["address"] == 40))' "$T/report" ||
  fail "realloc has kept what was written: $(cat "$T/report")"
run copy
expect 1 "$BACKSTEP" allocs --errors "$T/copy"
grep -q '^overrun: store of' "$T/out" || fail "memcpy over the end: $(cat "$T/out")"
run kernel
expect 1 "$BACKSTEP" allocs --errors "$T/kernel"
grep -q '^use after free: store of .* bytes' "$T/out" || fail "read() into freed memory: $(cat "$T/out")"
need gawk
"$BACKSTEP" record -q -o "$T/gawk" gawk 'BEGIN { for (i = 0; i < 300; i++) a[i] = i "x"; for (i in a) n++; print n }' >/dev/null
expect 0 "$BACKSTEP" allocs --errors "$T/gawk"
ok
