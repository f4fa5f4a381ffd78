#!/usr/bin/env bash
# What 'count' and 'log' say of random events (places, conditions, eras, periods, moments, data, compositions), of random
# stretches, in one window and in many, is what single steps through the same recording show (events_agree.py).
# SEED and ROUNDS from the environment: other questions, more of them.
source "$(dirname "$0")/lib.bash"
agree() {
  local name=$1
  shift
  LC_ALL=C.UTF-8 "$PYTHON" "$SRC/tests/cases/events_agree.py" "$BACKSTEP" "$BUILD/reference" "${SEED:-1}" "${ROUNDS:-3}" \
    "$name" --most "${MOST:-6000}" "$@" >&2 || fail "$name: not the same"
}
# recorded NAME [ARG...]: a test program.
recorded() {
  [ -x "$P/$1" ] || fail "the test program $1 was not built"
  "$BACKSTEP" record -q -o "$T/recordings/$1" "$P/$1" "${@:2}" >/dev/null 2>&1 </dev/null || true
}
mkdir "$T/recordings"
recorded asm_gas
agree asm_gas --most 20000
recorded ticks_nostdlib
agree ticks_nostdlib
recorded thr_raw
agree thr_raw
for program in 'thr_async 2' thr_futex 'sig_async 20' sig_nested sig_altstack isa_strings smc_rwx smc_wx thr_fork tree_shared; do
  # shellcheck disable=SC2086  # a program and its arguments
  recorded $program
  agree "${program% *}" --main
done
# A child, from its first instruction on.
agree tree_shared --process 2
ok
