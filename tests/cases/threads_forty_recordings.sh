#!/usr/bin/env bash
# Forty recordings of races, each replayed three times (`./run soak` makes it 200 of each kind). Long enough for threads to
# be interrupted in the middle, which makes outcomes differ.
source "$(dirname "$0")/lib.bash"
outcomes=0
many_recordings 25 -- "$P/thr_race" 2 1000000 plain
[ "$outcomes" -gt 1 ] || fail "all recordings of a race have the same outcome: nothing was tested"
many_recordings 5 -- "$P/thr_race" 4 3000
many_recordings 5 -- "$P/thr_aba" 300000
many_recordings 5 -- "$P/thr_uaf" 100000
ok
