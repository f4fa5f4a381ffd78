#!/usr/bin/env bash
# As tests/cases/events_agree_with_single_steps.sh, with other questions each time.
source "$(dirname "$0")/../cases/lib.bash"
for ((i = 0; i < ${TIMES:-20}; i++)); do
  SEED=$((RANDOM * 32768 + RANDOM)) ROUNDS=10 MOST=20000
  export SEED ROUNDS MOST
  bash "$SRC/tests/cases/events_agree_with_single_steps.sh" || fail "with SEED=$SEED ROUNDS=$ROUNDS MOST=$MOST"
done
ok
