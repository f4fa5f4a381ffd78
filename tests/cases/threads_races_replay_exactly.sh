#!/usr/bin/env bash
# Lost updates, ABA, use after free, a deadlock that may or may not happen: whatever the outcome was, every replay has it,
# however the code is translated.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
export NATIVE=no
for i in 1 2; do
  record_replay "race-$i" "$P/thr_race" 8 20000
  record_replay "race-plain-$i" "$P/thr_race" 3 100000 plain
  record_replay "aba-$i" "$P/thr_aba" 20000
  record_replay "uaf-$i" "$P/thr_uaf" 10000
  record_replay "deadlock-$i" "$P/thr_deadlock" maybe
done
for name in race-1 race-plain-1 aba-1 uaf-1 deadlock-1; do
  for options in --engine-max-block=1 --engine-counter=memory --engine-cache=64K; do replay_again $name 1 $options; done
done
ok
