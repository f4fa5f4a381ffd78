"""Compares the tables of `backstep sql` with what the other commands say.  sql_tables.py BACKSTEP

In the current folder: the recordings `crash` and `tree`, and what their programs wrote (sql_tables_agree_with_commands.sh).
"""
import json
import os
import subprocess
import sys

backstep = sys.argv[1]
in_windows = bool(os.environ.get("BACKSTEP_WINDOW"))
if not in_windows:
    os.environ.pop("BACKSTEP_WINDOW", None)


def run(*words):
    done = subprocess.run([backstep, *words], capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


def lines(*words):
    return [json.loads(line) for line in run(*words).splitlines()]


def sql(recording, query, *options):
    return lines("sql", "--json", *options, recording, query)


def same(what, a, b):
    assert len(a) > 0, f"{what}: nothing"
    for i, (x, y) in enumerate(zip(a, b)):
        assert x == y, f"{what}, {i}:\n  {x}\n  {y}"
    assert len(a) == len(b), f"{what}: {len(a)} and {len(b)}"


def pick(rows, *names):
    return [tuple(row[n] for n in names) for row in rows]


for recording in () if in_windows else ("crash", "tree"):  # what comes from the logs knows no windows
    processes = json.loads(run("ps", "--json", recording))
    same("processes", pick(processes, "number", "pid", "born", "ticks", "events", "duration_ns", "cpu_ns", "start_ns"),
         pick(sql(recording, "SELECT * FROM processes"), "process", "pid", "born", "ticks", "events", "duration", "cpu",
              "start"))
    dumped = [e for p in processes for e in lines("dump", "--json", "-p", f"#{p['number']}", recording)]
    rows = sql(recording, "SELECT * FROM events")
    same("events", pick(dumped, "process", "event", "kind", "name", "tick", "thread", "size", "text"),
         pick(rows, "process", "event", "kind", "name", "tick", "thread", "size", "text"))
    assert [e["pc"] or None for e in dumped] == [r["pc"] for r in rows]
    same("some events", pick([e for e in dumped if 7000 <= e["tick"] < 9000 and e["kind"] == "syscall"], "process", "event"),
         pick(sql(recording, "SELECT * FROM events WHERE tick >= 7000 AND tick < 9000 AND kind = 'syscall'"),
              "process", "event"))
    for process in processes:
        number = process["number"]
        calls = lines("syscalls", "--json", "-s", "32", "-p", f"#{number}", recording)
        rows = sql(recording, f"SELECT * FROM syscalls WHERE process = {number} ORDER BY event")
        same("syscalls", pick(calls, "process", "pid", "thread", "event", "tick", "at", "name", "ret", "error", "text"),
             pick(rows, "process", "pid", "thread", "event", "tick", "at", "name", "ret", "error", "text"))
        for call, row in zip(calls, rows):
            given = [a and a - (1 << 64 if a >= 1 << 63 else 0) for a in call["raw"]]  # without those that do not count here
            rest = iter([row[f"arg{i}"] for i in range(6)])
            assert all(a in rest for a in given), (call, row)
            if call["name"] == "openat":
                assert row["path"] == call["args"]["path" if "path" in call["args"] else "pathname"], (call, row)
    failed = [c for c in lines("syscalls", "--json", "--failed", recording)]
    counted = {}
    for call in failed:
        counted[call["name"], call["error"]] = counted.get((call["name"], call["error"]), 0) + 1
    rows = sql(recording, "SELECT name, error, count(*) AS n FROM syscalls WHERE error IS NOT NULL GROUP BY 1, 2")
    assert {(r["name"], r["error"]): r["n"] for r in rows} == counted, rows

    signals = [e for e in dumped if e["kind"] == "signal"]
    deaths = [e for e in dumped if e["kind"] == "end" and "died of" in e["text"]]
    rows = sql(recording, "SELECT * FROM signals")
    assert pick(signals, "event", "tick", "name", "text") == pick([r for r in rows if not r["fatal"]], "event", "tick",
                                                                   "signal", "text")
    assert pick(deaths, "event", "tick", "text") == pick([r for r in rows if r["fatal"]], "event", "tick", "text")

    # What it wrote, put together again.
    for fd, file in (1, f"{recording}.out"), (2, f"{recording}.err"):
        if not os.path.exists(file):
            continue
        rows = sql(recording, f"SELECT * FROM output WHERE fd = {fd} ORDER BY line")
        text = "".join(r["text"] + ("\n" if r["complete"] else "") for r in rows)
        assert text == open(file).read(), (fd, text[-100:])
        assert [r["line"] for r in rows] == list(range(1, len(rows) + 1))
        where = {c["event"]: c["at"] for c in lines("syscalls", "--json", "write,writev", recording)}
        assert all(where[r["event"]] == r["at"] for r in rows)

(thread,) = [t for t in sql("tree", "SELECT * FROM threads") if t["name"] == "worker"]
assert thread["thread"] == 2 and thread["born"] == "thread" and thread["ended"] > thread["began"], thread
for process in json.loads(run("ps", "--json", "tree")):
    (row,) = sql("tree", f"SELECT sum(ticks) AS ticks, min(began) AS began FROM threads WHERE process = {process['number']}")
    assert row["began"] + row["ticks"] == process["ticks"], (row, process)

for recording, process, functions in (("crash", 1, ["enter", "find", "malloc", "report"]),
                                      ("tree", 1, ["step", "fib", "leap", "main", "memset"]), ("tree", 2, ["step"])):
    for function in functions:
        by_command = []
        if function != "enter" or recording != "crash":  # that one is inlined here
            by_command = lines("calls", "--json", "-p", f"#{process}", function, recording)
        rows = sql(recording, f"SELECT * FROM calls WHERE function = '{function}' AND process = {process} ORDER BY enter, at")
        by_command.sort(key=lambda c: (c["tick"], c["at"]))
        key = lambda c: (c["at"], c["thread"], c["end"], c.get("left"), c.get("ticks"))
        assert [key(c) for c in by_command] == [key({**r, "ticks": r["ticks"]}) for r in rows], (function, by_command, rows)
        for call, row in zip(by_command, rows):
            assert [a["text"] for a in call["args"]] == [
                a.split("=", 1)[-1] for a in row["args"].replace(", …", "").split(", ")][:len(call["args"])] or "\"" in row["args"]
            assert call["caller"].get("function") == row["caller"] and call["caller"]["pc"] == row["back"]
            if isinstance(call["ret"], int):
                assert call["ret"] == row["ret"], (call, row)
        # A stretch: calls that begin in it, ended or not.
        if len(rows) > 2:
            low, high = rows[1]["enter"], rows[-2]["enter"]
            part = sql(recording, f"SELECT * FROM calls WHERE function = '{function}' AND process = {process} "
                                  f"AND enter BETWEEN {low} AND {high} ORDER BY enter, at")
            same("a stretch of calls", [r for r in rows if low <= r["enter"] <= high], part)
# Several in one go are the same as one after the other.
together = sql("tree", "SELECT * FROM calls WHERE function IN ('step', 'fib') ORDER BY function, enter, at")
apart = sql("tree", "SELECT * FROM calls WHERE function = 'fib' ORDER BY enter, at") + sql(
    "tree", "SELECT * FROM calls WHERE function = 'step' ORDER BY enter, at")
same("several functions", together, apart)
same("a pattern", pick(sql("tree", "SELECT * FROM calls WHERE function GLOB 'ste[p]' ORDER BY enter"), "at"),
     pick([c for c in apart if c["function"] == "step"], "at"))

for recording, name in (("crash", "lookups"), ("tree", "total"), ("tree", "pair.b")):
    hits = lines("log", "--json", f"write {name}", "{$old} {$new} {$addr}", recording)
    rows = sql(recording, f"SELECT * FROM stores WHERE name = '{name}' ORDER BY tick")
    same("stores", [(h["at"], h["thread"], h["values"]["$old"], h["values"]["$new"], int(h["values"]["$addr"].split()[0], 16))
                    for h in hits], pick(rows, "at", "thread", "oldval", "newval", "addr"))
    by_address = sql(recording, f"SELECT * FROM stores WHERE addr = {rows[0]['addr']} AND size = {rows[0]['size']}")
    same("stores by address", pick(rows, "at", "oldval", "newval"), pick(by_address, "at", "oldval", "newval"))
    middle = rows[len(rows) // 2]["tick"]
    same("stores of a stretch", [r for r in rows if r["tick"] >= middle],
         sql(recording, f"SELECT * FROM stores WHERE name = '{name}' AND tick >= {middle}"))
    changes = lines("log", "--json", f"change {name}", "{$old} {$new}", recording)
    rows = sql(recording, f"SELECT * FROM variables WHERE name = '{name}'")
    assert rows[0]["since"] is None and rows[-1]["until"] is None
    same("variables", pick(changes, "tick", "at", "thread"), pick(rows[1:], "since", "at", "thread"))
    assert [r["value"] for r in rows] == [changes[0]["values"]["$old"]] + [c["values"]["$new"] for c in changes]
    assert [r["until"] for r in rows[:-1]] == [r["since"] for r in rows[1:]]
    assert [r["value"] for r in rows[:-1]] == [r["oldval"] for r in rows[1:]]
    # value() and the table tell the same.
    for r in sql(recording, f"SELECT value, value('{name}', until) AS there FROM variables WHERE name = '{name}' AND until > 0"):
        assert r["there"] == r["value"], r
# A structure is longer than a word: its value is all of it.
rows = sql("tree", "SELECT value, since FROM variables WHERE name = 'pair'")
assert json.loads(rows[0]["value"])["b"] == 0 and json.loads(rows[-1]["value"])["b"] == 22, rows

hits = lines("log", "--json", "inventory.c:55", "", "crash")
same("executed", pick(hits, "at", "tick", "pc", "thread"),
     pick(sql("crash", "SELECT * FROM executed WHERE file = 'inventory.c' AND line = 55"), "at", "tick", "pc", "thread"))
assert sql("crash", "SELECT * FROM executed WHERE file = 'inventory.c' AND line = 2") == []  # has no code

# Joins, and functions at the moments that they find.
joined = sql("tree", "SELECT c.enter, s.newval FROM calls c JOIN stores s ON s.tick BETWEEN c.enter AND c.exit "
                     "WHERE c.function = 'step' AND s.name = 'total' ORDER BY 1")
same("a join", pick(sql("tree", "SELECT newval FROM stores WHERE name = 'total'"), "newval"), pick(joined, "newval"))
everywhere = sql("tree", "SELECT p.process, c.arg0 FROM processes p JOIN calls c ON c.process = p.process "
                         "WHERE c.function = 'step' ORDER BY 1, c.enter")
same("of all processes", pick(everywhere, "process", "arg0"), [(1, 10), (1, 5), (1, 7), (2, 100)])
for row in sql("tree", "SELECT at, pc, oldval, addr, value('total', at) AS before, symbol(pc) AS symbol, line(pc) AS line, "
                       "stack(at) AS stack, bytes(addr, 8, at) AS bytes, lag(at) OVER (ORDER BY tick) AS previous, "
                       "previous_store(addr, at) AS found FROM stores WHERE name = 'total'"):
    assert row["before"] == row["oldval"] == int.from_bytes(bytes.fromhex(row["bytes"]), "little"), row
    assert row["symbol"].startswith("step+") and row["line"].startswith("many.c:") and row["found"] == row["previous"], row
    assert row["stack"].startswith("step (many.c:"), row

functions = {r["name"]: r for r in sql("crash", "SELECT * FROM functions WHERE file LIKE '%inventory.c'")}
assert {"main", "find", "report"} <= functions.keys(), functions
(module,) = sql("crash", "SELECT * FROM modules WHERE NOT system")
assert module["start"] <= functions["main"]["entry"] < module["end"] and functions["main"]["module"] == module["path"]
places = sql("crash", f"SELECT l.line, line(l.start) AS named FROM lines l, functions f WHERE f.name = 'report' AND "
                      "l.file = f.file AND l.start >= f.entry AND l.end <= f.entry + f.size AND l.start < l.end")
assert any(p["named"] == f"inventory.c:{p['line']}" for p in places) and {p["line"] for p in places} >= {77}, places
