#!/usr/bin/env bash
# Making tables of contents divides windows that take long to replay: there are checkpoints then that were not there before, they are
# good, each part has a table of its own (compared with copies of all memory), and all questions have the same answers.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile words -O1 <<'C'
#include <stdio.h>
static volatile unsigned long work;
static volatile long set[8];
__attribute__((noinline)) long seldom(long n) { return n + work % 3; }
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 4000000; i++) work = work * 6364136223846793005ul + 1;
}
int main(void) {
  for (int round = 0; round < 8; round++) {
    compute();
    set[round] = seldom(round);
  }
  return 0;
}
C
recorded words 0
ask() {  # NAME
  {
    "$BACKSTEP" log 'write set' '{$new} {$thread}' rec-words && "$BACKSTEP" count 'call seldom' 'write set[3]' rec-words &&
      "$BACKSTEP" query 'goto last backward store where addr=&set[2]' rec-words
  } >"$1" || fail "cannot ask"
}
checkpoints() { "$BACKSTEP" checkpoints --json rec-words | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)))'; }
"$BACKSTEP" checkpoints --make --every 1000 rec-words >/dev/null || fail "no checkpoints"
count=$(checkpoints)
ask before
BACKSTEP_TABLE=0.004 BACKSTEP_CHECK_CONTENTS=1 "$BACKSTEP" trace --level 1 --json rec-words >windows.json || fail "cannot make tables"
"$PYTHON" - windows.json "$(checkpoints)" "$count" <<'PY' || fail "windows were not divided, or have gaps"
import json, sys
windows = json.load(open(sys.argv[1]))
assert len(windows) > 3, len(windows)
assert int(sys.argv[2]) >= int(sys.argv[3]) + len(windows) - 2, (sys.argv, len(windows))
for a, b in zip(windows, windows[1:]):
    assert a["to"] == b["from"], (a, b)
PY
ask after
same before after "other answers when windows are divided"
"$BACKSTEP" checkpoints --verify rec-words >out || fail "a checkpoint is not what a replay shows: $(cat out)"
# Traces of the parts fit to their tables.
"$BACKSTEP" trace --level 3 rec-words >/dev/null || fail "no level 3"
ask traced
same before traced "other answers with traces of the parts"
ok
