#!/usr/bin/env bash
# A thread that has ended is gone for others, also while all that are left wait for those. By processes of the recording and
# such that are not recorded.
source "$(dirname "$0")/lib.bash"
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree followed "$P/thr_seen_to_end"
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 RECORD_OPTIONS=--no-follow record_replay alone "$P/thr_seen_to_end"
ok
