#!/usr/bin/env bash
# Where other functions are inlined at the first instruction of a function or of a line, expressions, arguments and stacks
# are those of the function that the event is about; a session sees both.
source "$(dirname "$0")/lib.bash"
cat >inlined.cc <<'C'
#include <string>
volatile long total;
struct Inner {
  long x;
  __attribute__((always_inline)) explicit Inner(long n) : x(n * 2) { total = x; }
};
__attribute__((noinline)) long make(long count) { return Inner(count).x; }                       // 7
__attribute__((noinline)) std::string text(int length) { return std::string(length + total, 'x'); }
static inline __attribute__((always_inline)) long twice(long value) {
  long doubled = value * 2;
  total += doubled;                                                                               // 11
  return doubled;
}
__attribute__((noinline)) long around(long number) {
  long sum = number + 1;
  sum += twice(number);                                                                           // 16
  return sum;
}
int main(int argc, char**) { return make(argc) + text(argc).size() + around(argc + 4) > 1000; }
C
g++ -g -O2 -o inlined inlined.cc
mkdir recordings
expect 0 "$BACKSTEP" record -q -o recordings/inlined ./inlined
for question in 'call make|{count}|1' 'return make|{$retval}|2' 'make|{count}|1' 'inlined.cc:7|{count}|1' 'call text|{length}|1' \
  'call around|{number}|5' 'inlined.cc:11|{doubled}|10' 'inlined.cc:16|{number}|5'; do
  IFS='|' read -r spec text value <<<"$question"
  expect 0 "$BACKSTEP" log --json "$spec" "$text" inlined --stack -n 1
  "$PYTHON" - "$value" "$spec" <<'PY' || { cat out err >&2; fail "$spec: $text"; }
import json, sys
(hit,) = [json.loads(line) for line in open("out")]
assert list(hit["values"].values()) == [int(sys.argv[1])], hit
function = sys.argv[2].split()[-1]
if not ":" in function:
    assert hit["stack"][0]["function"].startswith(function) and hit["stack"][1]["function"] == "main", hit["stack"]
PY
done
expect 0 "$BACKSTEP" calls --json text inlined
grep -q '"args":\[{"name":"length","value":1,' out || { cat out >&2; fail "the arguments of text"; }
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
"$PYTHON" - <<'PY' || fail "values in a session"
import backstep
with backstep.open("recordings/inlined") as s:
    s.forward("inlined.cc:11")
    assert [f.function for f in s.stack()][:3] == ["twice", "around", "main"], s.stack()
    assert s.value("doubled") == 10 and s.value("number") == 5  # of what is inlined, of the function around it
    names = [v.expression for v in s.locals()]
    assert "doubled" in names and "number" in names, names
    try:
        s.value("numbre")
    except backstep.Error as e:
        assert "no variable 'numbre'" in str(e), e
    else:
        raise AssertionError("no error")
PY
ok
