#!/usr/bin/env bash
# kill -9 of any process of a tree, at random moments: what each had logged until then replays.
# ROUNDS and SEED for more.
source "$(dirname "$0")/lib.bash"
cat >script <<'SH'
"$1" &
while :; do
  seq 300 | sort -R | tail -n 1
  (echo subshell; /bin/true; exec cat /dev/null)
  x=$(echo "$(date)")
done
SH
seed=${SEED:-1}
for ((round = 0; round < ${ROUNDS:-5}; round++, seed++)); do
  rm -rf killed
  "$PYTHON" "$SRC/tests/cases/kill_tree.py" $seed "$T/killed" "$BACKSTEP" bash "$T/script" "$P/tree_threads"
  [ -e killed/process-1.log ] || continue
  expect 0 "$BACKSTEP" ps killed
  (replay_tree killed 1 --incomplete) || { "$BACKSTEP" ps killed >&2; fail "seed $seed: killed processes do not replay"; }
done
# Killed while the log grew: the new chunk is still all zeroes. That is no damage.
truncate -s +65536 killed/process-1.log
expect 0 "$BACKSTEP" replay --autopilot killed
says 'recorder was ended'
ok
