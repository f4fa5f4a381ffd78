#!/usr/bin/env bash
# As tests/cases/debug_code_of_any_kind_does_no_harm.sh, with other debug code each time.
source "$(dirname "$0")/../cases/lib.bash"
for ((i = 0; i < ${TIMES:-40}; i++)); do
  SEEDS=$((RANDOM * 32768 + RANDOM))
  export SEEDS
  bash "$SRC/tests/cases/debug_code_of_any_kind_does_no_harm.sh" || fail "with SEEDS=$SEEDS"
done
ok
