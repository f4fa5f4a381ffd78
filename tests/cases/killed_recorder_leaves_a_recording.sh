#!/usr/bin/env bash
# kill -9 in the middle: what was logged until then replays, with a sentence, and the output up to there.
source "$(dirname "$0")/lib.bash"
cat >loop.py <<'PY'
import time
i = 0
while True:
    print("line", i, flush=True)
    i += 1
    time.sleep(0.0005)
PY
for lines in 1 100 400; do
  rm -f recorded
  "$BACKSTEP" record -q -o "killed-$lines" "$PYTHON" loop.py >recorded &
  pid=$!
  while [ ! -e recorded ] || [ "$(wc -l <recorded)" -lt $lines ]; do
    kill -0 $pid || fail "the program has ended by itself"
    sleep 0.01
  done
  kill -9 $pid
  wait $pid 2>/dev/null || true
  expect 0 "$BACKSTEP" replay --autopilot "killed-$lines"
  says 'recorder was ended'
  # All that the program wrote is in the log, or all but the very last write.
  "$PYTHON" - recorded out <<'PY' || fail "the output before the kill is not what is replayed"
import sys
recorded, replayed = (open(f, "rb").read() for f in sys.argv[1:])
a, b = recorded.count(b"\n"), replayed.count(b"\n")
sys.exit(not (recorded.startswith(replayed) or replayed.startswith(recorded)) or abs(a - b) > 1)
PY
  "$BACKSTEP" info "killed-$lines" >info
  grep -Eqi 'no end|killed|still' info || { cat info; fail "info does not say that it was cut short"; }
done
ok
