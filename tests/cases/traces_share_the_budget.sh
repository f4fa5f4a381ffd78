#!/usr/bin/env bash
# The room that traces may take is the recording's: those of all its processes are counted together, and reduced wherever they are.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile family -O1 <<'C'
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long work;
int main(void) {
  const pid_t child = fork();
  for (int i = 0; i < 200000; i++) work = work * 6364136223846793005ul + 1;
  return child ? wait(0) < 0 : 0;
}
C
recorded family 0
for process in 1 2; do
  "$BACKSTEP" trace --level 3 -p "#$process" rec-family >/dev/null || fail "no traces of process $process"
done
levels() { "$BACKSTEP" trace --json -p "#$1" rec-family | "$PYTHON" -c 'import json, sys; print(*sorted({w["level"] for w in json.load(sys.stdin)}))'; }
room() { cat "$T"/rec-family/contents/process-"$1"-*.stores | wc -c; }
[ "$(levels 1) $(levels 2)" = "3 3" ] || fail "not all have level 3: $(levels 1), $(levels 2)"
# What was made first is the oldest; the other one fits.
"$BACKSTEP" trace --budget "$(($(room 1) + $(room 2) - 1))" -p '#2' rec-family >/dev/null || fail "cannot reduce them"
[ "$(levels 1)" = 2 ] || fail "what the other process has was not reduced: $(levels 1)"
[ "$(levels 2)" = 3 ] || fail "the latest was reduced: $(levels 2)"
# A process that has none itself reduces those of others.
"$BACKSTEP" trace --budget 0 -p '#1' rec-family >/dev/null || fail "cannot reduce them to nothing"
[ "$(levels 1) $(levels 2)" = "1 1" ] || fail "something is left: $(levels 1), $(levels 2)"

# Before windows of level 2 go, neighbours are merged, and answers stay what they were.
compile windows -O1 <<'C'
static volatile unsigned long work;
volatile long early, late;
int main(void) {
  for (int round = 0; round < 12; round++) {
    if (round == 1) early = 1;
    if (round == 8) late = 1;
    for (int i = 0; i < 400000; i++) work = work * 6364136223846793005ul + 1;
  }
  return 0;
}
C
recorded windows 0
"$BACKSTEP" checkpoints --make --every 0.002 rec-windows >/dev/null || fail "no checkpoints"
answers() {
  for where in 'store where addr=&early' 'store where addr=&late' 'store 3 where addr=&work'; do
    "$BACKSTEP" query "goto last backward $where" rec-windows || fail "no answer"
  done
  "$BACKSTEP" query 'goto current backward store where addr=&work' --at 40% rec-windows
}
windows() { "$BACKSTEP" trace --json rec-windows | "$PYTHON" -c 'import json, sys; print(sum(w["level"] == 2 for w in json.load(sys.stdin)))'; }
"$BACKSTEP" trace --level 1 rec-windows >/dev/null || fail "no tables of contents"
answers >expected
"$BACKSTEP" trace --level 2 rec-windows >/dev/null || fail "no traces"
answers >got
diff expected got || fail "other answers from level 2"
before=$(windows)
[ "$before" -gt 3 ] || fail "there are only $before windows"
for left in $((before - 1)) 1; do
  for _ in $(seq $((before - left))); do
    [ "$(windows)" -gt "$left" ] || break
    "$BACKSTEP" trace --budget "$(($(cat rec-windows/contents/*.stores | wc -c) - 1))" rec-windows >/dev/null || fail "cannot reduce them"
  done
  [ "$(windows)" = "$left" ] || fail "$(windows) windows of $before are left, not $left"
  answers >got
  diff expected got || fail "other answers from $left windows of $before"
done
"$BACKSTEP" trace --json rec-windows | "$PYTHON" -c '
import json, sys
windows = json.load(sys.stdin)
merged = [w for w in windows if w["level"] == 2]
first, last = windows[0]["from"], max((w["to"] for w in windows), key=lambda p: p["tick"])
sys.exit(not (merged[0]["from"] == first and merged[0]["to"]["tick"] == last["tick"]))' || fail "the last one is not all of the run"
ok
