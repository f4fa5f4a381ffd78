#!/usr/bin/env bash
# Where the recorder put a call off and made it again at once, there are two events at one control point. Who goes there stands in front of the
# call that was made: it does not happen once more behind that.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
cat >lone.c <<'C'
#include <pthread.h>
#include <unistd.h>
static int fd[2], stop[2];
static void* wait_for_end(void* p) { char c; (void)!read(stop[0], &c, 1); return p; }
int main(void) {
  pthread_t t;
  char c = 0;
  (void)!pipe(fd);
  (void)!pipe(stop);
  pthread_create(&t, 0, wait_for_end, 0);
  for (int i = 0; i < 100000; i++) { (void)!write(fd[1], &c, 1); (void)!read(fd[0], &c, 1); }
  (void)!write(stop[1], &c, 1);
  pthread_join(t, 0);
  return 0;
}
C
gcc -O1 -o lone lone.c -pthread
# The timer of turns comes while a call is being entered, and nobody else wants the turn: in most runs that happens at least once.
at=
for _ in $(seq 200); do
  rm -rf run
  "$BACKSTEP" record -q -o run ./lone
  # The line behind it is of the same call, at the same tick: "NUMBER @TICK THREAD CALL".
  at=$("$BACKSTEP" dump run | awk '/not made yet/ { tick = $2; next } tick == $2 && $4 ~ /^(read|write)\(/ { last = substr(tick, 2) } { tick = "" } END { print last }')
  [ -z "$at" ] || break
done
[ -n "$at" ] || fail "no call was put off and made again at once, in 200 recordings"
"$PYTHON" - "$at" <<'PY' || fail "at tick $at"
import sys
import backstep
tick = int(sys.argv[1])
with backstep.open("run") as s:
    hits = [h.at for h in s.log("syscall", start=str(tick - 20), end=str(tick + 20))]
    here = next(i for i, at in enumerate(hits) if at.startswith(f"@{tick}:"))
    for name, go in (("forward", lambda: s.forward("syscall").at), ("query", lambda: s.query("goto current forward syscall 1").at),
                     ("run", lambda: s.run().at)):
        assert s.goto(hits[here]).at == hits[here]
        if name == "run": s.create_event("syscall")
        found = go()
        assert found == hits[here + 1], f"{name}: {found} behind {hits[here]}, and not {hits[here + 1]}"
    s.goto(hits[here + 1])
    assert s.backward("syscall").at == hits[here]
PY
ok
