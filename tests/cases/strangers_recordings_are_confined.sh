#!/usr/bin/env bash
# A recording that was not made here is replayed and asked like any other; but what replays it has no rights that it does not need,
# and leaves nothing behind that other runs would use.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/sums.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
export XDG_CACHE_HOME=$T/cache
mkdir cache
"$BACKSTEP" record -q -o own ./sums >/dev/null
cp -r own foreign

find cache/backstep -maxdepth 1 -type f -delete # translations: what a replay of this program would leave
"$BACKSTEP" replay --autopilot foreign >out 2>&1 || fail "replay: $(cat out)"
[ ! -e foreign/checkpoints ] || fail "a replay to the end has made a folder"
"$BACKSTEP" log sums.c:5 '{n}' foreign >foreign.log
[ -z "$(find cache/backstep -maxdepth 1 -type f)" ] || fail "translations of a stranger's program were kept: $(ls cache/backstep)"
"$BACKSTEP" log sums.c:5 '{n}' own >own.log
[ -s own.log ] || fail "no hits"
same own.log foreign.log "other answers"

# modes DIR: of the processes that hold the recorded program, while somebody asks: Seccomp, NoNewPrivs.
cat >modes.py <<'PY'
import subprocess, sys
import backstep

with backstep.open(sys.argv[1]) as s:
    s.goto("end")
    session = subprocess.run(["pgrep", "-P", str(s._process.pid)], capture_output=True, text=True).stdout.split()
    modes = set()
    for pid in session:
        status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
        modes.add((status["Seccomp"].strip(), status["NoNewPrivs"].strip()))
    print(len(session) > 0, sorted(modes))
PY
for r in own foreign; do
  "$PYTHON" modes.py $r >modes || fail "modes of $r"
  [ "$(cat modes)" = "True [('2', '1')]" ] || fail "$r: $(cat modes)"
done

# A debugging session stores checkpoints, in the recording and nowhere else.
"$BACKSTEP" checkpoints --make foreign >out 2>&1 || fail "checkpoints: $(cat out)"
[ -d foreign/checkpoints ] || fail "no checkpoints of a recording from elsewhere"
"$BACKSTEP" checkpoints --verify foreign >out 2>&1 || fail "they are not right: $(cat out)"
ok
