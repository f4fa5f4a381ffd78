#!/usr/bin/env bash
# 200 recordings of each race, plain and with chaos, each replayed three times.
source "$(dirname "$0")/../cases/lib.bash"
many_recordings 200 -- "$P/thr_race" 4 3000
many_recordings 200 -- "$P/thr_race" 2 1000000 plain
outcomes=0
many_recordings 200 --chaos -- "$P/thr_race" 4 3000
[ "$outcomes" -gt 100 ] || fail "chaos made only $outcomes different outcomes of 200"
many_recordings 200 -- "$P/thr_aba" 300000
many_recordings 200 --chaos -- "$P/thr_aba" 1000
many_recordings 200 -- "$P/thr_uaf" 100000
many_recordings 200 --chaos -- "$P/thr_uaf" 1000
many_recordings 50 -- "$P/thr_async" 50
many_recordings 50 --chaos -- "$P/thr_async" 50
ok
