#!/usr/bin/env bash
# A process that is stopped (SIGSTOP) keeps nobody waiting for the memory that it shares with others.
source "$(dirname "$0")/lib.bash"
for round in 1 2 3; do
  OUTPUT=same TREE_OPTIONS=--incomplete record_tree "stopped$round" "$P/tree_stopped"
done
ok
