#!/usr/bin/env bash
# A timer that ends a leg of the replay while a question is being answered in front of an instruction: the answer counts, and is
# not given again when the replay goes on there.
source "$(dirname "$0")/lib.bash"
cat >often.c <<'C'
#include <stdio.h>
static volatile unsigned long sum;
__attribute__((noinline)) void step(unsigned long i) { sum += i; }
int main() {
  for (unsigned long i = 0; i < 6000000; i++) step(i);
  printf("%lu\n", sum);
  return 0;
}
C
gcc -O1 -g often.c -o often
expect 0 "$BACKSTEP" record -q -o recording "$T/often"
expect 0 "$BACKSTEP" count --json 'call step if $arg0 < 7000000' recording
[ "$(field 0.count <out)" = 6000000 ] || fail "there were 6000000 calls: $(cat out)"
for leg in 2e-5 1e-4; do
  BACKSTEP_LEG=$leg expect 0 "$BACKSTEP" log 'call step if $arg0 % 1200 == 7' '{$arg0}' recording
  [ "$(wc -l <out)" = 5000 ] || fail "legs of $leg s: $(wc -l <out) lines"
  [ "$(sort -u out | wc -l)" = 5000 ] || fail "legs of $leg s: lines that are there twice"
done
ok
