#!/usr/bin/env bash
# The disk fills up in the middle: the program runs on to its own end and status; the recording ends cleanly at
# that point, says so, and replays up to it.
source "$(dirname "$0")/lib.bash"
mkdir small
mount -t tmpfs -o size=32M none small 2>/dev/null || skip "cannot mount a small file system (needs root)"
unmount() {
  local ended=$?
  cd /
  umount "$T/small" 2>/dev/null || umount -l "$T/small"
  cleanup $ended
}
trap unmount EXIT
cat >eat.py <<'PY'
import os, sys
f = open("/dev/urandom", "rb", buffering=0)
total = 0
for i in range(400):
    total += len(f.read(100000))
    if i % 50 == 0:
        print("line", i, flush=True)
print("end", total)
sys.exit(5)
PY
export BACKSTEP_DIR=$T/small/recordings
got=0
timeout "$PATIENCE" "$BACKSTEP" record "$PYTHON" -S -E eat.py >recorded 2>err || got=$?
if [ $got != 5 ]; then cat err; fail "the program ended with $got instead of 5"; fi
[ "$(tail -n 1 recorded)" = "end 40000000" ] || fail "the program did not run to its end"
says 'full|space|stopped'
got=0
"$BACKSTEP" replay --autopilot >out 2>err || got=$?
[ $got = 3 ] || [ $got = 0 ] || { cat err; fail "replay ended with $got"; }
says 'full|space|stopped|end'
head -n 1 out | seen -x 'line 0' || fail "the replay does not show what was recorded"
"$PYTHON" -c 'import sys; sys.exit(not open("recorded", "rb").read().startswith(open("out", "rb").read()))' || fail "other output"
"$BACKSTEP" info >info
grep -Eqi 'full|space|stopped' info || { cat info; fail "info does not say it"; }
# Full from the start.
dd if=/dev/zero of=small/filler bs=4k 2>/dev/null || true
got=0
"$BACKSTEP" record "$P/hello" >out 2>err || got=$?
[ -s err ] || fail "no word about a full disk"
[ $got != 139 ] && [ $got != 135 ] || fail "died of a signal on a full disk"
ok
