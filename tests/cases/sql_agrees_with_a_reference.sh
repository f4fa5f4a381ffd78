#!/usr/bin/env bash
# Random SQL over the recorded history answers as SQLite does over ordinary tables with the same rows: with limits of time, orders both ways,
# LIMIT and joins; in one window and in many.
source "$(dirname "$0")/lib.bash"
cat >sums.c <<'C'
#include <unistd.h>
int total, turn, list[8];
__attribute__((noinline)) int leaf(int x) { return x * 3 + list[x & 7]; }
__attribute__((noinline)) int step(int x) {
  total += leaf(x);
  if (x & 1) list[x & 7] = total;
  else list[x & 7]++;
  return total > 50 ? total - x : leaf(total);
}
int main(void) {
  for (turn = 0; turn < 20; turn++) {
    step(turn);
    if (turn % 5 == 0) getppid();
  }
  return 0;
}
C
gcc -g -O1 -o sums sums.c
expect 0 "$BACKSTEP" record -q -o "$T/run" ./sums
"$PYTHON" "$SRC/tests/cases/sql_agree.py" "$T/run" 1 || fail "in one window"
BACKSTEP_WINDOW=60 "$PYTHON" "$SRC/tests/cases/sql_agree.py" "$T/run" 2 || fail "in many windows"
ok
