#!/usr/bin/env bash
# What the bodies of threads tell the runner must not be the first thing that the next program hears: it would die of it.
source "$(dirname "$0")/lib.bash"
OUTPUT=same REPLAYS=1 LIMIT=$PATIENCE record_tree becoming "$P/thr_becomes" 80
ok
