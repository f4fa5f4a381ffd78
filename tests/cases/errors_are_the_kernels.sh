#!/usr/bin/env bash
# Whatever is wrong with a call, the answer is what it is natively: bad pointers, sizes, times, numbers, for a few hundred
# calls, with and without threads. What a failed call wrote all the same is replayed.
source "$(dirname "$0")/lib.bash"
OUTPUT=same REPLAYS=1 record_tree errors "$P/sys_errors"
[ "$(grep -c '^---' errors.out)" = 5 ] || fail "the program did not come to its end"
# Arguments that hold pointers, through which the kernel writes.
OUTPUT=same record_replay embedded "$P/sys_embedded"
ok
