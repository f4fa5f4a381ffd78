#!/usr/bin/env bash
# The stack of calls as a logged value, between others: as text, as JSON, in Python; not where something is compared.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >few.c <<'C'
volatile long total;
__attribute__((noinline)) void step(long n) { total += n; }
__attribute__((noinline)) void rare(long n) { step(-n); }
int main(void) {
  for (long i = 0; i < 3000; i++) {
    step(i);
    if (i % 1000 == 999) rare(i);
  }
  return 0;
}
C
gcc -g -O1 -fno-inline -fno-optimize-sibling-calls -o few few.c
expect 0 "$BACKSTEP" record -q -o run ./few
"$BACKSTEP" log 'call step if $arg0 < 0' '{ $stack } of {$arg0}' run >stacks
[ "$(grep -cE '  step \(few.c:2\) < rare \(few.c:3\) < main \(few.c:7\).* of -[0-9]+$' stacks)" = 3 ] || fail "stacks: $(cat stacks)"
"$BACKSTEP" log 'call step if $arg0 < 0' '{$stack} {$arg0}' --json run >json
"$BACKSTEP" log 'call step if $arg0 < 0' '{$stack}' --json --stack run >both
"$PYTHON" - <<'PY' || fail "stacks as JSON: $(cat json both)"
import json
lines = [json.loads(line) for line in open("json")]
functions = lambda stack: [frame["function"] for frame in stack][:3]
assert [functions(line["values"]["$stack"]) for line in lines] == [["step", "rare", "main"]] * 3
assert [line["values"]["$arg0"] for line in lines] == [-999, -1999, -2999] and all("stack" not in line for line in lines)
assert all(line["stack"] == line["values"]["$stack"] for line in map(json.loads, open("both")))
PY
PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1 "$PYTHON" - <<'PY' || fail "stacks in Python"
import backstep
with backstep.open("run") as s:
    stacks = [h.values["$stack"] for h in s.log("call step then call rare then call step", "$stack")]
    assert [[f["function"] for f in stack][:3] for stack in stacks] == [["step", "rare", "main"]] * 3, stacks
PY
expect 2 "$BACKSTEP" count 'call step if $stack' run
says 'stack can only be logged'
ok
