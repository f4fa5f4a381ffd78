#!/usr/bin/env bash
# unshare(CLONE_NEWUSER) in a program with one thread that shares memory with its children, and goes on doing so.
source "$(dirname "$0")/lib.bash"
unshare -U true 2>/dev/null || skip "user namespaces are not permitted here"
export LIMIT=$PATIENCE
for round in 1 2 3; do OUTPUT=same record_tree "round$round" "$P/tree_own_user"; done
ok
