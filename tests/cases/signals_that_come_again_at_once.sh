#!/usr/bin/env bash
# Timers whose next signal is there as soon as one was taken, until their handlers stop them: the recorder does not wait for
# the last one.
source "$(dirname "$0")/lib.bash"
OUTPUT=same REPLAYS=1 LIMIT=$PATIENCE record_tree rapid "$P/sig_rapid"
ok
