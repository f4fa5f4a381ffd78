"""Compares tables that were exported, a CSV file for each, with what 'backstep sql --json' answers:

    export_agrees.py BACKSTEP RECORDING FOLDER [--from-postgres]

What comes from PostgreSQL has rows in any order, no byte 0 in texts, and times as times, with exact numbers beside them.
"""
import csv
import json
import subprocess
import sys

backstep, recording, folder = sys.argv[1:4]
from_postgres = "--from-postgres" in sys.argv
csv.field_size_limit(1 << 30)


def ask(*words):
    return subprocess.run([backstep, "sql", *words], check=True, capture_output=True).stdout.decode("utf-8")


def text_of(value):
    text = "" if value is None else str(value)
    return text.replace("\0", "\ufffd") if from_postgres else text


tables = 0
for line in ask(recording, ".tables").splitlines():
    table = line.split()[0]
    try:
        with open(f"{folder}/{table}.csv", encoding="utf-8", errors="replace", newline="") as file:
            exported = list(csv.DictReader(file))
    except FileNotFoundError:
        continue
    tables += 1
    wanted = [json.loads(row) for row in ask("--json", recording, f"SELECT * FROM {table}").split("\n") if row]
    columns = list(wanted[0]) if wanted else []
    rows = [[row[c + "_ns" if c + "_ns" in row else c] for c in columns] for row in exported]
    expected = [[text_of(row[c]) for c in columns] for row in wanted]
    if from_postgres:
        rows.sort()
        expected.sort()
    assert len(rows) == len(expected), f"{table}: {len(rows)} rows instead of {len(expected)}"
    for n, (row, want) in enumerate(zip(rows, expected)):
        assert row == want, f"{table}, row {n + 1}: {row} instead of {want}"
assert tables >= 10, f"only {tables} tables"
