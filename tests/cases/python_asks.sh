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
    (write,) = s.syscalls("write", strings=2)
    assert (write.name, write.args["fd"], write.args["buf"], write.ret, write.error) == ("write", 1, "26", 3, None), write
    failed = list(s.syscalls(failed=True, processes="all"))
    assert failed and all(c.ret == -1 and c.error and c.errno for c in failed), failed
    assert [c.at for c in s.syscalls(last=1)] == [list(s.syscalls())[-1].at] != [next(s.syscalls()).at]
    assert not list(s.syscalls("write", end=write.at)) and len(list(s.syscalls("write", start=write.at))) == 1
    (total,) = s.syscall_totals("write")
    assert (total["name"], total["calls"], total["errors"], total["bytes"]) == ("write", 1, 0, 3), total
    (call,) = s.calls("main", tree=True, depth=1)
    assert {n["function"]: n["count"] for n in call.tree}["add"] == 10, call.tree
    table = s.sql("SELECT arg0, enter FROM calls WHERE function = 'add'")
    assert [row["arg0"] for row in table] == list(range(1, 11)) and table.columns == ["arg0", "enter"] and table.complete
    assert len(s.sql("SELECT 1 FROM syscalls", limit=2)) == 2 and not s.sql("SELECT 1 FROM syscalls", limit=2).complete
    m = s.goto(hit.at)
    assert m.function == "add" and m.at == calls[2].at
    assert s.forward("call add").at == calls[3].at
    assert s.backward("call add").at == hit.at
    assert s.value("i", frame=1) == 3 and s.registers()["rip"] == m.pc
    assert len(s.memory(m.pc, 4)) == 4 and s.memory(8, 4) == b""
    assert s.step(3).pc != m.pc and s.step(3, back=True).pc == m.pc
    (here,) = s.log("call add if n == 5")
    s.goto(here.at)
    mark = s.bookmark("fifth", "n is 5")
    assert (mark.name, mark.at, mark.process, mark.note) == ("fifth", here.at, 1, "n is 5"), mark
    s.bookmark("again")
    assert {b.name: b.at for b in s.bookmarks()} == {"fifth": here.at, "again": here.at}
    s.goto("start")
    assert s.goto("fifth").at == here.at and s.value("n") == 5
    assert s.count("call add", start="fifth") == 5  # it is behind the first instructions
    s.remove_bookmark("fifth"), s.remove_bookmark("again")
    assert s.bookmarks() == []
    kept = s.checkpoint("n is 5")
    assert s.step(by="out").function == "main" and s.step(by="line", back=True).function == "add"
    assert s.restart(kept).at == here.at == kept.at and s.value("n") == 5 and s.checkpoints() == [kept]
    s.remove_checkpoint(kept)
    assert s.checkpoints() == []
    assert s.count("call add", processes="all") == 10
    (share,) = s.count_by_process("call add")
    assert (share["process"], share["count"]) == (1, 10) and share["pid"] == s.info()["pid"]
    assert {(h.process, h.values["n"]) for h in s.log("call add", "n", processes=[1])} == {(1, n) for n in range(1, 11)}
    assert [c.process for c in s.calls("add", limit=2, processes="all")] == [1, 1]
    assert s.profile(period=100, processes="all")["stacks"][0]["stack"][0] == "sums"
    assert s.coverage(processes="all") == s.coverage()
    hit = s.query("goto last backward store 2 where addr=&total and func=<add>", "$old", "$new", stack=True)
    assert (hit.function, hit.values["$new"] - hit.values["$old"], hit.stack[1].function) == ("add", 9, "main"), hit
    assert s.now().at == hit.at and s.value("n") == 9
    back = s.query("goto current backward func_enter where stack=<*,main,add> and n < 4", "n", move=False)
    assert back.values["n"] == 3 and s.now().at == hit.at and back.texts["n"] == "3"
    assert s.query("goto current forward func_enter 2 where func=<add>") is None and s.now().at == hit.at
    never, total = s.check("never call add if n > 10; always total >= 0 at call add")
    assert never.holds and never.checks == 0 and not total.holds and (total.checks, total.violations) == (10, 1), total
    assert total.first["values"] == {"total": -1} and total.first["function"] == "add", total.first
    assert [v.holds for v in s.check("at most 3 of call add", end=hit.at)] == [False]
    assert s.check("never call add", processes="all")[0].first["process"] == 1
    s.cancel()  # nothing is under way
    s.on_progress = lambda done: s.cancel()
    for _ in range(5):  # it may be over before anything was said of it
        try:
            s.count("every 1")
        except backstep.Cancelled:
            pass
    s.on_progress = None
    assert s.count("call add") == 10
    for wrong in (lambda: s.remove_bookmark("fifth"), lambda: s.restart(kept), lambda: s.step(by="word"), lambda: s.bookmark("50%"), lambda: s.count("call add", processes=[9]),
                  lambda: s.value("nothing"), lambda: s.count("call nothing"), lambda: s.goto("nowhere"), lambda: s.sql("SELECT"), lambda: s.ask("nothing"), lambda: s.check("nver x"),
                  lambda: s.query("goto nowhere")):
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
