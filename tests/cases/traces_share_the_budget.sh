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
ok
