#!/usr/bin/env bash
# The Python package, and the examples that use it.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/sums.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
E=$SRC/examples/python
"$PYTHON" "$E/values.py" total one | awk '{print $2}' | tr '\n' ' ' >values
[ "$(cat values)" = "0 1 3 6 10 15 21 28 -1 7 16 26 " ] || fail "values.py: $(cat values)"
"$PYTHON" "$E/invariant.py" sums.c:5 'total >= 0' one >broken && fail "invariant.py has found nothing"
grep -q 'holds 7 times, and not at @' broken || fail "invariant.py: $(cat broken)"
"$PYTHON" "$E/invariant.py" sums.c:5 'total >= 0' two >held || fail "invariant.py has found what is not there"
"$PYTHON" "$E/compare.py" one two add main >compared
grep -q '10 *10  add$' compared || fail "compare.py: $(cat compared)"
"$PYTHON" - <<'PY'
import backstep

with backstep.open("one") as s:
    assert s.count("call add") == 10 and s.count("call add", "change total") == [10, 11]
    hits = list(s.log("sums.c:5", "n", "total", stack=True))
    assert [h.values["n"] for h in hits] == list(range(1, 11)) and hits[3].texts["total"] == "6", hits
    assert [f.function for f in hits[0].stack][:2] == ["add", "main"]
    for hit in s.log("call add", "$arg0"):  # given up in the middle
        if hit.values["$arg0"] == 3:
            break
    assert [h.values["$arg0"] for h in s.log("call add", "$arg0", last=2)] == [9, 10]
    seen = []
    for h in s.log("sums.c:5", "n"):  # and asked something else in the middle
        s.goto(h.at)
        seen.append((h.values["n"], s.value("n")))
    assert seen == [(n, n) for n in range(1, 11)], seen
    calls = list(s.calls("add"))
    assert [c.args[0]["value"] for c in calls] == list(range(1, 11)) and all(c.end == "returned" for c in calls)
    (call,) = s.calls("main", tree=True, depth=1)
    assert {n["function"]: n["count"] for n in call.tree}["add"] == 10, call.tree
    m = s.goto(hit.at)
    assert m.function == "add" and m.at == calls[2].at
    assert s.forward("call add").at == calls[3].at
    assert s.backward("call add").at == hit.at
    assert s.value("i", frame=1) == 3 and s.registers()["rip"] == m.pc
    assert len(s.memory(m.pc, 4)) == 4 and s.memory(8, 4) == b""
    assert s.step(3).pc != m.pc and s.step(3, back=True).pc == m.pc
    for wrong in (lambda: s.value("nothing"), lambda: s.count("call nothing"), lambda: s.goto("nowhere"), lambda: s.ask("nothing")):
        try:
            wrong()
        except backstep.Error as e:
            assert str(e)
        else:
            raise AssertionError("no error")
try:
    backstep.open("not-there")
except backstep.Error as e:
    assert "not-there" in str(e)
else:
    raise AssertionError("no error")
PY
ok
