#!/usr/bin/env bash
# Who wrote a byte or a register last, by 'why', is what single steps through the same recording show, at random moments (why_agree.py).
# SEED and QUESTIONS from the environment: others, more of them.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
agree() {
  LC_ALL=C.UTF-8 "$PYTHON" "$SRC/tests/cases/why_agree.py" "$BACKSTEP" "$BUILD/reference" "${SEED:-1}" "${QUESTIONS:-25}" "$@" >&2 ||
    fail "$1: not the same"
}
recorded() {
  [ -x "$P/$1" ] || fail "the test program $1 was not built"
  "$BACKSTEP" record -q -o "$T/recordings/$1" "$P/$1" "${@:2}" >/dev/null 2>&1 </dev/null || true
}
export PYTHONDONTWRITEBYTECODE=1
recorded asm_gas
agree asm_gas
recorded isa_strings
agree isa_strings --main
recorded thr_futex
agree thr_futex --main
recorded sig_nested
agree sig_nested --main
ok
