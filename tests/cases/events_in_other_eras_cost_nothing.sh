#!/usr/bin/env bash
# Thousands of events at one place whose eras are all different, and periods that have little in common: each counts what it should.
# (If each pass of the place looked at all events, or the run stopped wherever a multiple of what the periods have in common is, this would
# take minutes.)
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >passed.c <<'C'
volatile long total;
__attribute__((noinline)) void step(long n) { total += n; }
int main(void) {
  for (long i = 0; i < 200000; i++) step(i);
  return 0;
}
C
gcc -O1 -o passed passed.c
expect 0 "$BACKSTEP" record -q -o run ./passed
first=$("$BACKSTEP" log 'call step' '' -n 1 --json run | field tick)
# A call, a return and a jump back: three ticks for each pass.
specs=()
for ((i = 0; i < 4000; i++)); do specs+=("call step in [$((first + i * 90)),$((first + i * 90 + 30))) if \$arg0 >= $((i * 30 + 5))"); done
last=$((first + 599997))
specs+=("call step" "call step in [$((first + 3)),$((first + 9)))" "call step in [,$first)" "call step in [$((last + 1)),)"
  "every 100003" "every 99991" "every 7 in [14,70)" "every 7 in [15,71)")
expect 0 "$BACKSTEP" count --json "${specs[@]}" run
"$PYTHON" - "$last" <<'PY' || fail "the counts are not right"
import json, sys
counts = [a["count"] for a in json.load(open("out"))]
assert counts[:4000] == [5] * 4000, [(i, n) for i, n in enumerate(counts[:4000]) if n != 5][:5]
assert counts[4000:4004] == [200000, 2, 0, 0], counts[4000:4004]
ticks = int(sys.argv[1])
assert counts[4004] == ticks // 100003 + 1 and counts[4005] == ticks // 99991 + 1, counts[4004:]
assert counts[4006:] == [8, 8], counts[4006:]
PY
ok
