#!/usr/bin/env bash
# A thread in a blocking call stops no other: what it waits for is done by another thread. And it can be cancelled there.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_block
same_program thr_cancel
ok
