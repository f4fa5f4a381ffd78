#!/usr/bin/env bash
# 'allocs' says what was lost, what only lost blocks lead to and what is still reachable; and finds frees that do not fit, with the
# stacks of the free, of the allocation and of the free before. What is fine it leaves alone, also in programs that we did not write.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >wrong.cc <<'C'
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
struct node { node *next; char text[40]; };
static node *kept;
static void *volatile hidden;
__attribute__((noinline)) node *make(node *next) {
  node *n = (node *)malloc(sizeof *n);
  memset(n, 0, sizeof *n);
  n->next = next;
  return n;
}
__attribute__((noinline)) void lose() {
  node *volatile n = make(make(make(nullptr)));
  n = nullptr;
}
__attribute__((noinline)) void ring() {
  node *volatile a = make(nullptr);
  node *volatile b = make(a);
  a->next = b;
  a = b = nullptr;
}
__attribute__((noinline)) void clear_stack() {
  volatile char room[4096];
  memset((void *)room, 0, sizeof room);
}
__attribute__((noinline)) void drop(void *p) { free(p); }
int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  setvbuf(stdout, nullptr, _IONBF, 0);
  kept = make(make(nullptr));
  kept->next = (node *)((char *)kept->next + 8); // an address inside is enough
  char *volatile p = (char *)malloc(64);
  if (!strcmp(what, "lose")) lose(), free(p);
  if (!strcmp(what, "ring")) ring(), free(p);
  if (!strcmp(what, "double")) drop(p), drop(p);
  if (!strcmp(what, "inside")) drop(p + 16);
  if (!strcmp(what, "never")) drop(&kept);
  if (!strcmp(what, "mismatch")) { int *volatile n = new int(1); drop(n); }
  if (!strcmp(what, "array")) { int *volatile n = new int[7]; ::operator delete(n); }
  if (!strcmp(what, "size")) { void *volatile n = ::operator new(40); ::operator delete(n, std::size_t(8)); }
  if (!strcmp(what, "realloc")) { hidden = realloc(p, 200000); drop(p); }
  if (!strcmp(what, "fine")) {
    int *volatile n = new int[7];
    delete[] n;
    char *volatile q = (char *)realloc(nullptr, 10);
    q = (char *)realloc(q, 100000), q = (char *)realloc(q, 20);
    free(q), free(nullptr);
    try {
      volatile std::size_t much = std::size_t(1) << 60;
      char *volatile none = new char[much];
      delete[] none;
    } catch (const std::bad_alloc &) {
    }
    void *aligned = nullptr;
    if (posix_memalign(&aligned, 4096, 100)) return 1;
    free(aligned), free(aligned_alloc(64, 128));
    free(strdup("text"));
    free(p);
  }
  clear_stack();
  return 0;
}
C
g++ -g -O1 -w -fno-builtin -o wrong wrong.cc
# run WHAT: recorded as $T/WHAT.
run() { "$BACKSTEP" record -q -o "$T/$1" ./wrong "$1" >/dev/null 2>&1 || true; }
report() { "$BACKSTEP" allocs --json --leaks --errors "$T/$1" >"$T/report" || [ $? = 1 ] || fail "allocs of $1"; }
is() { [ "$(field "$1" <"$T/report")" = "$2" ] || fail "$3: $1 is $(field "$1" <"$T/report") instead of $2"; }

run fine
expect 0 "$BACKSTEP" allocs --leaks --errors "$T/fine"
report fine
is lost.blocks 0 fine
is errors '[]' fine

run lose
expect 1 "$BACKSTEP" allocs "$T/lose"
grep -q '48 bytes in 1 block lost; malloc in thread 1 at @' "$T/out" || fail "what was lost is not told of: $(cat "$T/out")"
grep -q 'make at wrong.cc:9' "$T/out" && grep -q 'lose at wrong.cc:15' "$T/out" || fail "the stack of what was lost"
report lose
is lost.blocks 1 lose
is indirect.blocks 2 lose
is lost.bytes 48 lose
run ring
report ring
is lost.blocks 1 ring
is indirect.blocks 1 ring

# error WHAT KIND ADDRESS-OF-THE-BLOCK-KNOWN: exactly one, freed in drop() or main().
error() {
  run "$1"
  expect 1 "$BACKSTEP" allocs --errors "$T/$1"
  report "$1"
  [ "$(field errors <"$T/report" | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)))')" = 1 ] ||
    fail "$1: not one error: $(field errors <"$T/report")"
  is errors.0.kind "$2" "$1"
  is errors.0.count 1 "$1"
}
error double "double free"
is errors.0.stack.1.function drop double
is errors.0.block.freed.stack.1.function drop double
is errors.0.block.freed.stack.2.line 37 double
is errors.0.block.allocated.stack.1.function main double
is errors.0.block.size 64 double
error inside "bad free"
is errors.0.block.size 64 inside
error never "bad free"
grep -q '"block"' "$T/report" && ! "$PYTHON" -c 'import json, sys; sys.exit("block" in json.load(open(sys.argv[1]))["errors"][0])' "$T/report" &&
  fail "a variable is no block"
error mismatch "mismatched free"
is errors.0.block.allocated.function "operator new" mismatch
error array "mismatched free"
is errors.0.block.allocated.function "operator new[]" array
error size "wrong size"
is errors.0.size 8 size
error realloc "double free"
is errors.0.block.freed.function realloc realloc

# The same with the allocator in the program itself.
if g++ -static -g -O1 -w -fno-builtin -o wrong wrong.cc 2>/dev/null; then
  run fine && report fine
  is errors '[]' "static, fine"
  is lost.blocks 0 "static, fine"
  error double "double free"
  run lose && report lose
  is indirect.blocks 2 "static, lose"
fi

# At an earlier moment; and programs of others.
expect 0 "$BACKSTEP" allocs --to start "$T/fine"
grep -q '^allocated  *0 bytes in 0 blocks' "$T/out" || fail "there was something before the start: $(cat "$T/out")"
expect 2 "$BACKSTEP" allocs --from 50% "$T/fine"
need perl gawk
"$BACKSTEP" record -q -o "$T/perl" perl -e 'my %h; $h{$_} = [1 .. 3] for 1 .. 500; delete $h{$_} for 1 .. 100; print scalar keys %h' >/dev/null
expect 0 "$BACKSTEP" allocs --errors "$T/perl"
"$BACKSTEP" record -q -o "$T/gawk" gawk 'BEGIN { for (i = 0; i < 500; i++) a[i] = i "x"; for (i in a) n++; print n }' >/dev/null
expect 0 "$BACKSTEP" allocs --errors "$T/gawk"
ok
