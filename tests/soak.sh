#!/usr/bin/env bash
# Long runs with random seeds: instruction fuzzing in every mode of the engine, the record/replay cases under engine
# variations, and the cases of tests/soak (big runtimes, hundreds of recordings), in turns until the time is over. Called
# by `./run soak`. Stops at the first failure.
#
#   soak.sh [--minutes N] [--seed S] [--fuzz-only | --cases-only]
#
# Every seed is printed before it is used; `--seed S` starts with S again (the following ones are derived from it).
set -euo pipefail
: "${BACKSTEP:?is the program to test}" "${BUILD:?is the build folder}" "${SRC:?is the source folder}"

usage() {
  echo "usage: ./run soak [--minutes N] [--seed S] [--fuzz-only | --cases-only]" >&2
  exit 2
}
minutes=30 seed=$(date +%s%N) fuzz=yes cases=yes
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=${2:?$(usage)}; shift 2 ;;
    --seed) seed=${2:?$(usage)}; shift 2 ;;
    --fuzz-only) cases=no; shift ;;
    --cases-only) fuzz=no; shift ;;
    *) usage ;;
  esac
done
end=$((SECONDS + minutes * 60))
log=$(mktemp "${TMPDIR:-/tmp}/backstep-soak.XXXXXX")
trap 'rm -f "$log"' EXIT

# One seed, all modes. A round is long enough for the generator to learn which instructions this CPU has.
fuzz_round() {
  local seconds=$((end - SECONDS < 180 ? end - SECONDS : 180))
  [ $seconds -gt 0 ] || return 0
  echo "[$SECONDS s] fuzz_instructions --seconds $seconds --seed $seed"
  "$BUILD/fuzz_instructions" --seconds "$seconds" --seed "$seed" --regressions "$SRC/tests/fuzz/regressions.txt" \
    >"$log" 2>&1 || { cat "$log"; echo "FAILED with seed $seed" >&2; exit 1; }
  tail -n 1 "$log"
}

# Engine variations for recording and for replay; none of them may change anything (see
# cases/ticks_do_not_depend_on_translation.sh).
variations=("" --engine-cache=64K --engine-cache=1M --engine-max-block=1 --engine-max-block=3 --engine-no-links
  --engine-counter=memory --engine-check-ticks
  "--engine-cache=64K --engine-max-block=2 --engine-no-links --engine-counter=memory --engine-check-ticks")
# Cases that record and replay through lib.bash and so take RECORD_OPTIONS and REPLAY_OPTIONS.
mapfile -t names < <(grep -lE '^ *(.* )?(record_replay|record_tree|program|same_program) ' "$SRC"/tests/cases/*.sh)

case_round() {
  local name=${names[$((RANDOM % ${#names[@]}))]}
  local record=${variations[$((RANDOM % ${#variations[@]}))]} replay=${variations[$((RANDOM % ${#variations[@]}))]}
  echo "[$SECONDS s] RECORD_OPTIONS='$record' REPLAY_OPTIONS='$replay' bash $name"
  local status=0
  RECORD_OPTIONS=$record REPLAY_OPTIONS=$replay bash "$name" >"$log" 2>&1 || status=$?
  case $status in
    0 | 77) ;;
    *) cat "$log"; echo "FAILED: $name recorded with '$record', replayed with '$replay'" >&2; exit 1 ;;
  esac
}

# Those that take too long for `./run test`: one per round, as they are.
long=("$SRC"/tests/soak/*.sh)
long_round() {
  local name=${long[$((rounds % ${#long[@]}))]}
  echo "[$SECONDS s] bash $name"
  local status=0
  bash "$name" >"$log" 2>&1 || status=$?
  case $status in
    0 | 77) ;;
    *) cat "$log"; echo "FAILED: $name" >&2; exit 1 ;;
  esac
}

rounds=0
while [ $SECONDS -lt $end ]; do
  RANDOM=$((seed % 32768))
  [ $fuzz = no ] || fuzz_round
  if [ $cases = yes ]; then
    for ((i = 0; i < 12 && SECONDS < end; i++)); do case_round; done
    [ $SECONDS -ge $end ] || long_round
  fi
  rounds=$((rounds + 1))
  seed=$(((seed * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff))
done
echo "soaked $minutes minutes, $rounds rounds, nothing found"
