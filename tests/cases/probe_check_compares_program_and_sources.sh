#!/usr/bin/env bash
# `backstep probe --check` says whether the program that lies there, and its sources, are what was recorded: built again with
# debug regions it is the same code, with lines that moved; a changed constant is another program, also in a function that was
# inlined, and also if no line has moved.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings" other
cat >shop.c <<'C'
#include <stdio.h>
#include <stdlib.h>
static int stock[4] = {3, 1, 4, 1};
static int limit = 100;
static int receive(int what, int many) {
  int *place = stock + what;
  if (many > limit) {
    printf("too many: %d\n", many);
    exit(1);
  }
  *place += many;
  return *place;
}
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 4; i++)
    sum += receive(i, argc * i);
  printf("%d pieces of %s\n", sum, argv[0]);
  return 0;
}
C
cp shop.c shop.orig
gcc -g -O1 -o shop shop.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/shop" ./shop
check() {  # STATUS ARG...
  local status=$1
  shift
  expect "$status" "$BACKSTEP" probe --check "$@" shop
}
has() { grep -Eq -- "$1" out || { cat out err >&2; fail "no word of '$1'"; }; }
lacks() { ! grep -Eq -- "$1" out || { cat out >&2; fail "'$1' is said"; }; }

check 0 shop.c
has "$T/shop: the recorded one, in every section"
has "shop.c: it compiles to the recorded code"
lacks "changed|moved"

# With regions, and built with them.
sed -e '1i#include <backstep/debug.h>' -e 's/^  \*place +=/  BACKSTEP_BEGIN\n    printf("%d\\n", many);\n  BACKSTEP_END\n&/' shop.orig >shop.c
check 0 shop.c
has "it compiles to the recorded code; 2 moved; 1 debug region"
has "main \(line 18\): was at line 14"
gcc -g -O1 -I"$SRC/include" -o shop shop.c
check 0
has "the same code and data as recorded; only what describes them differs \(.*\.debug_line"
has "shop.c: lines 5 to [0-9]+ are lines 6 to"
has "shop.c: lines 11 to [0-9]+ are lines 15 to"
expect 0 "$BACKSTEP" probe shop.c shop
[ "$(cat out)" = $'0\n1\n2\n3' ] || fail "the region in a function that was inlined: $(cat out)"

# Within a line: the code, a string, the first value of a variable.
changed() {  # SED WHAT
  sed "$1" shop.orig >shop.c
  check 1 shop.c
  has "shop.c: 1 of its functions and variables changed"
  has "$2"
}
changed 's/exit(1)/exit(2)/' 'main \(line 14\) was changed: its code is another one'
changed 's/pieces of/pieces in/' 'main \(line 14\) was changed: a constant in it'
changed 's/4, 1}/4, 2}/' 'stock was changed: its first value'
sed 's/  \*place += many;/  for (int i = 0; i < many; i++)\n    ++*place;/' shop.orig >shop.c
check 1 shop.c
has 'receive \(line 5\) was changed'
# And built.
gcc -g -O1 -o other/shop shop.c
check 1 --program other/shop
has "other/shop: not the recorded one: .*\.text.* differ"
has "main \(.*shop.c:14\): [0-9]+ bytes of code, [0-9]+ now"
check 1 --json --program other/shop
[ "$(field files.0.state <out)" = changed ] || fail "JSON: $(cat out)"
rm shop
check 0
has "$T/shop: not there any more; the recording has the file"
# Regions need the header.
sed -e 's/^  \*place +=/  BACKSTEP_BEGIN\n    printf("%d\\n", many);\n  BACKSTEP_END\n&/' shop.orig >shop.c
check 1 shop.c
says "'shop.c' has debug regions, but does not say #include <backstep/debug.h>"
expect 2 "$BACKSTEP" probe --check --at shop.c:3 'x' shop
ok
