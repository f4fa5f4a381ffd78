#!/usr/bin/env bash
# `record --chaos` finds races that recording hides: those that 200 plain recordings miss are there after a few, and are
# then replayed as often as wanted. The same seed is not a promise of the same outcome, the recording is.
source "$(dirname "$0")/lib.bash"
for race in twice lost; do
  missed=0
  for ((i = 0; i < ${PLAIN:-100}; i++)); do
    rm -rf plain
    [ "$(status "$BACKSTEP" record -q -o plain "$P/thr_chaos" $race 2>&1 | tail -n 1)" != 0 ] || missed=$((missed + 1))
  done
  say "$race: plain recording missed it $missed times of $i"
  # A busy machine may interrupt anywhere, so once is not yet a contradiction.
  [ $missed -ge $((i - 1)) ] || fail "plain recording finds '$race': it does not show what chaos is for"
  found=
  for ((seed = 1; seed <= 150; seed++)); do
    rm -rf chaos
    [ "$(status "$BACKSTEP" record -q --chaos=$seed -o chaos "$P/thr_chaos" $race | tail -n 1)" != 1 ] || { found=yes; break; }
  done
  [ $found ] || fail "chaos did not find '$race' with 150 seeds"
  say "$race: chaos found it with seed $seed"
  for i in 1 2 3; do
    expect 0 "$BACKSTEP" replay --autopilot chaos
    [ "$(cat out)" = found ] || fail "the replay of what chaos found printed '$(cat out)'"
  done
done
"$BACKSTEP" record -q --chaos -o unseeded "$P/thr_race" >out
"$BACKSTEP" replay --autopilot -q unseeded | cmp - out || fail "replay of a chaos recording without a seed differs"
outcomes=0
many_recordings 10 --chaos=SEED -- "$P/thr_race" 4 2000
[ "$outcomes" -gt 5 ] || fail "chaos made only $outcomes different outcomes of 10"
# A call ends with EINTR only if a handler that does not restart calls has run: one for Ctrl-C that never came is no reason.
for seed in 1 2 3; do
  for what in handler:0 handled:1; do
    expect ${what#*:} "$BACKSTEP" record -q --chaos=$seed -o "${what%:*}-$seed" "$P/thr_chaos" ${what%:*}
    expect 0 "$BACKSTEP" replay --autopilot "${what%:*}-$seed"
  done
done
# Programs without races do what they always do.
export LIMIT=$PATIENCE RECORD_OPTIONS=--chaos
same_program thr_sync
same_program thr_block
same_program thr_many
same_program thr_cxx
same_program thr_jit
ok
