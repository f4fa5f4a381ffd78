#!/usr/bin/env bash
# Waiting, zombies, orphans, groups, sessions; a daemon that outlives the first process is recorded to its end.
source "$(dirname "$0")/lib.bash"
# Some of them die of SIGKILL, and so have no end.
TREE_OPTIONS=--incomplete record_tree family "$P/tree_family"
grep -q 'last words' family.out || fail "the daemon was not recorded to its end"
record_tree signals "$P/tree_signals"
ok
