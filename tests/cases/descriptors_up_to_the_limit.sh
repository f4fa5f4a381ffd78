#!/usr/bin/env bash
# The limit on descriptors (RLIMIT_NOFILE) is reached where the program has set it: ours do not count. Nor are they in the way of
# numbers that the kernel gives out, or that the program asks for, when it raises its limit and has thousands.
source "$(dirname "$0")/lib.bash"
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree files "$P/thr_files"
ulimit -Sn 64
ulimit -Hn 6000
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree numbers "$P/fd_numbers"
# Who shares descriptors with another process has ours of that one in the same table: they stay, so the last word is heard.
(
  ulimit -Sn 6000
  expect 0 "$BACKSTEP" record -o "$T/shared" -- "$P/fd_numbers" shared
  says '^backstep: recorded .* 2 process logs'
)
# Not all of the last ones can be had at the same time if the limit may not be raised; each of them can.
ulimit -Sn 40
ulimit -Hn 40
OUTPUT=same REPLAYS=1 record_replay few "$P/fd_numbers" few
ok
