#!/usr/bin/env bash
# Random debug code, another one each time: over whole runs (tests/cases/debug_code_of_any_kind_does_no_harm.sh), and along with
# sessions that walk at random (debug_code_goes_along_on_random_walks.sh).
source "$(dirname "$0")/../cases/lib.bash"
for ((i = 0; i < ${TIMES:-20}; i++)); do
  seed=$((RANDOM * 32768 + RANDOM))
  say "seed $seed"
  SEEDS=$seed bash "$SRC/tests/cases/debug_code_of_any_kind_does_no_harm.sh" || fail "over a run, with SEEDS=$seed"
  SEEDS="$seed $((seed + 1))" GDB_SEEDS=$seed bash "$SRC/tests/cases/debug_code_goes_along_on_random_walks.sh" ||
    fail "on walks, with SEEDS='$seed $((seed + 1))' GDB_SEEDS=$seed"
done
ok
