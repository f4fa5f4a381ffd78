#!/usr/bin/env bash
# Turns and signals wait until a repeated string instruction that met a page of shared memory is done. So do the other pages,
# if the last of the others ends meanwhile.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
for round in 1 2 3; do
  NATIVE=no record_tree "strings$round" "$P/tree_strings" 1
  grep -q ', 1$' "strings$round.out" || fail "no alarms, or no other threads: $(cat "strings$round.out")"
done
NATIVE=no RECORD_OPTIONS=--chaos=5 record_tree chaos "$P/tree_strings" 1
for round in 1 2; do
  record_tree "alone$round" "$P/tree_strings_alone" 6
done
ok
