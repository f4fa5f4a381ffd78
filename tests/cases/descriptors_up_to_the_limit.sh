#!/usr/bin/env bash
# The limit on descriptors (RLIMIT_NOFILE) is reached where the program has set it: ours do not count.
source "$(dirname "$0")/lib.bash"
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree files "$P/thr_files"
ok
