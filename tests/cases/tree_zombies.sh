#!/usr/bin/env bash
# Processes that have ended and were not collected: /proc shows the program's signals and limits, not ours.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
export LIMIT=$PATIENCE
export TREE_OPTIONS=--incomplete # one is killed
for round in 1 2 3; do OUTPUT=same record_tree "zombies$round" "$P/tree_zombie"; done
RECORD_OPTIONS=--chaos=3 OUTPUT=same REPLAYS=1 record_tree chaos "$P/tree_zombie"
# Also for who is not recorded.
"$BACKSTEP" record -q -o child bash -c 'trap "" HUP; sleep 0.01 & exec sleep 1000' &
recorder=$!
has_zombie() {
  zombie=$(ps -o pid=,stat= --ppid $recorder | awk '$2 ~ /Z/ { print $1 }' || true)
  [ -n "$zombie" ]
}
comes has_zombie || fail "there is no zombie"
grep -q '^SigIgn:.*0007$' "/proc/$zombie/status" || fail "the ignored signals are ours"
grep -q '^SigCgt:.*0000000000000000$' "/proc/$zombie/status" || fail "the caught signals are ours"
kill $recorder
wait $recorder || true
ok
