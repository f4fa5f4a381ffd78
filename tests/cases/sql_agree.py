"""Random SQL over the tables of a small recording, against the same rows in SQLite's own tables: sql_agree.py RECORDING SEED.

The reference has all rows of tables that replay, as questions without any limit of time give them; the random questions have limits, orders,
joins and LIMITs, which choose what is replayed and in which direction."""
import json
import os
import random
import sqlite3
import subprocess
import sys

recording, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
program = os.environ["BACKSTEP"]


def ask(queries):
    """The rows of each query, all in one session."""
    text = "".join(f"SELECT '---' AS mark;\n{q};\n" for q in queries)
    run = subprocess.run([program, "sql", "--json", recording], input=text, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    answers = []
    for line in run.stdout.splitlines():
        row = json.loads(line)
        if row.get("mark") == "---":
            answers.append([])
        else:
            answers[-1].append(tuple(row.values()))
    assert len(answers) == len(queries), (len(answers), len(queries))
    return answers


functions = ["step", "leaf", "main"]
quoted = ", ".join(f"'{f}'" for f in functions)
# Table, its column of time, columns, and what makes it answer at all.
tables = {
    "calls": ("enter", "function, enter, exit, thread, at, caller, arg0, ret", f"function IN ({quoted})"),
    "stores": ("tick", "addr, size, tick, pc, at, thread, oldval, newval", "tick >= 0"),
    "loads": ("tick", "addr, size, tick, pc, at, thread, value", "tick >= 0"),
    "blocks": ("tick", "function, tick, pc, end, at, thread, line", f"function IN ({quoted})"),
    "variables": ("since", "name, value, oldval, since, until, at, line", "name IN ('total', 'turn')"),
    "executed": ("tick", "line, tick, pc, at, function", "file = 'sums.c' AND line IN (5, 6, 7, 8)"),
    "events": ("tick", "event, kind, name, tick, pc, at, thread, text", "1"),
}
span = ask(["SELECT min(enter), max(exit) FROM calls WHERE function = 'main'"])[0][0]
reference = sqlite3.connect(":memory:")
whole = {t: f"SELECT {columns} FROM {t} WHERE {needs} AND {time} BETWEEN {span[0]} AND {span[1]}" for t, (time, columns, needs) in tables.items()}
for table, rows in zip(whole, ask(whole.values())):
    names = [c.strip() for c in tables[table][1].split(",")]
    reference.execute(f"CREATE TABLE {table} ({', '.join(names)})")
    reference.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
    assert rows, f"no rows of {table}"
sizes = {t: reference.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}


def moment():
    return rng.randint(span[0], span[1])


def limits(table, prefix=""):
    time = prefix + tables[table][0]
    low, high = sorted((moment(), moment()))
    return rng.choice([f"{time} BETWEEN {low} AND {high}", f"{time} = {low}", f"{time} > {low} AND {time} < {high}", f"{time} >= {low}",
                       f"{time} < {high}", f"{time} BETWEEN {low} AND {low + 40}"])


def question():
    """The query for us, and for the reference, which need not be told what to look for."""
    table = rng.choice(list(tables))
    time, columns, needs = tables[table]
    more = []
    if rng.random() < 0.8:
        more.append(limits(table))
    if table in ("stores", "loads") and rng.random() < 0.3:
        address = reference.execute(f"SELECT addr FROM {table} ORDER BY random() LIMIT 1").fetchone()[0]
        more.append(rng.choice([f"addr >= {address}", f"addr < {address}"]))
    if table == "calls" and rng.random() < 0.5:
        more.append(rng.choice(["ret > 10", "arg0 < 5", "caller = 'main'", "exit - enter > 1"]))
    if rng.random() < 0.15:
        inner = rng.choice(["calls", "blocks"])
        low = moment()
        where = f"c.function = 'step' AND c.{tables[inner][0]} BETWEEN {low} AND {low + 60} AND s.tick = c.{tables[inner][0]}"
        text = f"SELECT s.at, s.addr, s.newval, c.at AS other FROM {inner} c JOIN stores s WHERE {where} ORDER BY 1, 2, 4"
        return text, text
    order, limit = rng.random(), ""
    if order < 0.35:
        by = f" ORDER BY {time}"
    elif order < 0.75:
        by = f" ORDER BY {time} DESC"
    else:
        by = ""
        limit = ""
    if by and rng.random() < 0.7:
        limit = f" LIMIT {rng.choice([1, 1, 3, 20])}"
    # With a limit only what it is ordered by is the same everywhere.
    picked = time if limit else columns
    tail = by + limit
    bounds = f"{time} BETWEEN {span[0]} AND {span[1]}"
    return (f"SELECT {picked} FROM {table} WHERE {' AND '.join([needs, bounds] + more)}{tail}",
            f"SELECT {picked} FROM {table}{' WHERE ' + ' AND '.join(more) if more else ''}{tail}")


questions = [question() for _ in range(24)]
found = 0
for (ours, theirs), rows in zip(questions, ask([q for q, _ in questions])):
    expected = reference.execute(theirs).fetchall()
    found += bool(expected)
    if " ORDER BY " not in ours or " LIMIT " not in ours:
        rows, expected = sorted(map(repr, rows)), sorted(map(repr, expected))
    assert rows == expected, f"{ours}\n  {len(rows)} rows: {rows[:5]}\n  instead of {len(expected)}: {expected[:5]}"
assert found > 8, f"only {found} questions have an answer"
# The order itself, newest first, and a limit that stops early.
for table in ("stores", "loads", "blocks", "executed"):
    time, columns, needs = tables[table]
    rows = [r[0] for r in ask([f"SELECT {time} FROM {table} WHERE {needs} ORDER BY {time} DESC LIMIT 500"])[0]]
    assert rows and rows == sorted(rows, reverse=True), (table, rows[:10])
print(f"{len(questions)} questions, {found} with an answer, over {sizes}")
