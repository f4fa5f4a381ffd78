#!/usr/bin/env bash
# A register that was written long ago is searched for in executed code instead of stepping there: the writer is the one that
# steps show (why_places.py compares the two at random moments), and a loop's counter costs few steps however long the calls in the
# loop take.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export PYTHONDONTWRITEBYTECODE=1
compile loop -O1 <<'C'
#include <stdio.h>
static volatile unsigned long work;
// Saves no register that main has anything in.
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 3000000; i++) work = work + i;
}
volatile long result;
int main(void) {
  register long n __asm__("r15") = 4;
  __asm__ volatile("" : "+r"(n));
  for (int i = 0; i < 3; i++) {
    compute();
    __asm__ volatile("addq $3, %0" : "+r"(n));
  }
  compute();
  result = n;
  return 0;
}
C
recorded loop 0
"$BACKSTEP" why result --json rec-loop >why.json || fail "no answer"
"$PYTHON" - why.json <<'PY' || fail "wrong answer: $(cat why.json)"
import json, sys
answer = json.load(open(sys.argv[1]))
assert answer["steps"] < 1000000, answer["steps"]
value, depth = answer["value"], 0
while True:
    (part,) = value["parts"]
    origin = part["origin"]
    if origin["kind"] != "computed":
        break
    depth += 1
    (value,) = origin["inputs"]
assert depth == 3 and origin["kind"] == "constant", (depth, origin)
PY
mkdir runs
for program in asm_gas isa_strings thr_futex sig_nested jit; do
  [ -x "$P/$program" ] || fail "the test program $program was not built"
  "$BACKSTEP" record -q -o "$T/runs/$program" "$P/$program" >/dev/null 2>&1 </dev/null || true
  "$PYTHON" "$SRC/tests/cases/why_places.py" "$BACKSTEP" "${SEED:-1}" "${QUESTIONS:-12}" "$T/runs/$program" >&2 || fail "$program: not the same"
done
ok
