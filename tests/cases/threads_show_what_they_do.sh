#!/usr/bin/env bash
# The state of each thread in /proc is that of the program's thread, in the same process and in another recorded one.
source "$(dirname "$0")/lib.bash"
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree states "$P/thr_states"
LIMIT=$PATIENCE RECORD_OPTIONS=--chaos=5 REPLAYS=1 record_tree chaos "$P/thr_states"
ok
