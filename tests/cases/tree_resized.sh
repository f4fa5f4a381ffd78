#!/usr/bin/env bash
# A file that is mapped shared becomes longer and shorter by what other processes do, recorded or not: pages that come
# and go are seen as they were.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
R=$P/tree_resized
for how in mapped unmapped truncating; do
  NATIVE=no record_tree "$how" "$R" $how "$T/file" 150
  NATIVE=no RECORD_OPTIONS=--no-follow record_tree "$how-outsider" "$R" $how "$T/file" 150
  grep -Eq ', [1-9][0-9]+ bus errors, [1-9][0-9]* faults, status 0' "$how.out" || fail "too little happened: $(cat "$how.out")"
done
# Stores of what was there before somebody else wrote there are stores all the same.
OUTPUT=same record_tree words "$R" words "$T/file" 50
OUTPUT=same RECORD_OPTIONS=--no-follow record_tree words-outsider "$R" words "$T/file" 50
grep -qx '200 of 200 stores were kept' words-outsider.out || fail "$(cat words-outsider.out)"
"$BACKSTEP" dump mapped | seen ' bytes now' || fail "dump does not tell of sizes"
# Checkpoints have the file as it was then.
expect 0 "$BACKSTEP" checkpoints --make --every 0.001 mapped
expect 0 "$BACKSTEP" checkpoints --verify mapped
ok
