#!/usr/bin/env bash
# Forty recordings of a race, each replayed three times (`./run soak` makes it 200 of each kind).
source "$(dirname "$0")/lib.bash"
many_recordings 25 -- "$P/thr_race" 4 3000
many_recordings 15 -- "$P/thr_aba" 1000
ok
