#!/usr/bin/env bash
# fork, posix_spawn, exit and death from threads that are not the first.
source "$(dirname "$0")/lib.bash"
record_tree threads "$P/tree_threads"
RECORD_OPTIONS=--chaos=7 REPLAYS=1 record_tree chaos "$P/tree_threads"
ok
