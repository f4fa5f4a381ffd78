#!/usr/bin/env bash
# What is wrong with debug code is said at its own lines: variables that have no value there, names that do not exist, wrong
# syntax, regions that do not end or are left in the middle, places that are none.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >gone.c <<'C'
#include <stdlib.h>
static int sink;
__attribute__((noinline)) static int make(int n) { return n * sink + 3; }
__attribute__((noinline)) static void use(int n) { sink += n; }
__attribute__((noinline)) static int work(int n, int unused) {
  int early = make(n);
  use(early);
  sink++;
  use(n + 1);
  sink++;
  return sink;
}
int main(int argc, char **argv) { return work(argc, 7) == 0; }
C
gcc -g -O2 -fno-ipa-ra -o gone gone.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/gone" ./gone
says() {  # TEXT ARG...
  local text=$1
  shift
  expect 1 "$BACKSTEP" probe --compile "$@" gone
  grep -qF -- "$text" err || { cat err >&2; fail "no word of: $text"; }
}
says "--at gone.c:10:2:8: error: 'early' has no value at gone.c:10: the compiler kept no value of it here; it is known at line" \
  --at gone.c:10 $'int x = 3;\nprintf(early, x);'
expect 0 "$BACKSTEP" probe --compile --at gone.c:10 'int early = 4; printf("%d\n", early + sink);' gone
says "--at gone.c:7:1:14: error: 'earl' was not declared" --at gone.c:7 'printf("%d", earl);'
says "error: expected" --at gone.c:7 'if (early'
expect 2 "$BACKSTEP" probe --compile --at 'gone.c:7 if sink > 3' 'puts("x");' gone
grep -q "is no place in the code" err || fail "conditions: $(cat err)"
expect 2 "$BACKSTEP" probe --compile --at gone.c:7
expect 2 "$BACKSTEP" probe --compile --at gone.c:7 @nowhere.cc gone
source_says() {  # TEXT CODE
  sed "s/  sink++;\n  return/X/; 0,/  sink++;/s//  BACKSTEP_BEGIN $2\n  sink++;/" gone.c | sed '1i#include <backstep/debug.h>' >with.c
  says "$1" with.c
}
source_says "cannot be left by 'return'" 'if (n) return 3; BACKSTEP_END'
source_says "this debug region does not end" 'n++;'
source_says "label" 'goto out; BACKSTEP_END'
source_says "break statement not within" 'if (n) break; BACKSTEP_END'
source_says "with.c:9:" 'nothing(; BACKSTEP_END'
ok
