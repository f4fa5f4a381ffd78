#!/usr/bin/env bash
# Timer signals every 100 us into five threads at once. The output depends on each landing place and each switch; every
# replay, under every way of translating, has the same output.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
for i in 1 2 3; do
  NATIVE=no record_replay "async-$i" "$P/thr_async" 100
  for options in --engine-max-block=1 --engine-counter=memory --engine-no-links --engine-cache=64K; do
    replay_again "async-$i" 1 "$options"
  done
done
! cmp -s async-1.out async-2.out || fail "two recordings with the same landings: nothing was tested"
ok
