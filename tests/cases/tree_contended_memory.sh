#!/usr/bin/env bash
# Processes that fight over the same pages of shared memory, one of which is killed while it holds some: each of them
# replays exactly, alone.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE TREE_OPTIONS=--incomplete
for round in 1 2; do
  NATIVE=no record_tree "contend$round" "$P/tree_contend"
  grep -qx 'sum 24000, block 40' "contend$round.out" || { cat "contend$round.out" >&2; fail "wrong sums"; }
done
NATIVE=no RECORD_OPTIONS=--chaos=7 record_tree chaos "$P/tree_contend" 60
# Not recorded children take part as well, as long as they are forks.
NATIVE=no RECORD_OPTIONS=--no-follow record_tree alone "$P/tree_contend" 100
[ "$logs" = 1 ] || fail "--no-follow recorded $logs processes"
ok
