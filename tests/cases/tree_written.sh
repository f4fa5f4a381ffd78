#!/usr/bin/env bash
# Recorded processes that write each other's memory (process_vm_writev, /proc/PID/mem), whatever the other one does at
# that moment: the same as natively, and each of them replays exactly.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
OUTPUT=same record_tree scenes "$P/tree_written"
RECORD_OPTIONS=--chaos=3 REPLAYS=1 record_tree chaos "$P/tree_written"
for ((i = 1; i <= 3; i++)); do REPLAYS=1 record_tree "storm$i" "$P/tree_written" storm; done
"$BACKSTEP" info "$T/scenes" | seen 'recorded exactly' || fail "something is not exact"
# shellcheck disable=SC2010,SC2012
! ls scenes | seen '^shown' || fail "files about processes that have ended were left behind"
ok
