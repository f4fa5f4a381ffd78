#!/usr/bin/env bash
# 'cluster sql --export' writes the tables of a run, or a query's answer, as 'sql --export' does for one recording: processes have their
# names in the run, and what is read from the files is what 'cluster sql' answers.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cases/cluster_chain.bash
source "$(dirname "$0")/cluster_chain.bash"

expect 0 cluster sql --export all run
for table in hosts processes channels messages orders events unmatched findings cuts syscalls signals threads output; do
  grep -q "^$table " out || fail "no word about $table: $(cat out)"
done
[ ! -e all/calls.csv ] || fail "calls without a function"
for table in processes channels messages orders syscalls; do
  cluster sql run --json "SELECT * FROM $table" >answer
  "$PYTHON" - $table <<'PY' || fail "$table: the file has something else"
import csv, json, sys
rows = [json.loads(line) for line in open("answer", errors="replace")]
file = list(csv.DictReader(open(f"all/{sys.argv[1]}.csv", newline="", errors="replace")))
assert rows and len(rows) == len(file), (len(rows), len(file))
def text(value):
    return "" if value is None else str(value)
for row, other in zip(rows, file):
    assert list(row) == list(other), (list(row), list(other))
    for name, value in row.items():
        # Times and addresses are shown in other forms.
        if isinstance(value, str) and not value.startswith("0x") and name not in ("start", "time"):
            assert text(value) == other[name], (name, value, other[name])
        elif isinstance(value, int) and other[name].lstrip("-").isdigit():
            assert value == int(other[name]), (name, value, other[name])
PY
done
[ "$(cut -d, -f1 all/messages.csv | sort -u | tr '\n' ' ')" = "A/chain A/chain.1 A/chain.2 sender " ] || fail "names: $(head -n 3 all/messages.csv)"

expect 0 cluster sql --export adds.csv --table adds run "SELECT process, ret FROM calls WHERE process = 'A/chain.2' AND function = 'add' ORDER BY enter"
[ "$(cat adds.csv)" = $'process,ret\nA/chain.2,1\nA/chain.2,11\nA/chain.2,22\nA/chain.2,32' ] || fail "$(cat adds.csv)"
expect 1 cluster sql --export adds.csv run messages
says 'exists already'
expect 2 cluster sql --export x.csv run calls
says 'cannot be exported as a whole; export a query'
expect 2 cluster sql --export x.csv run mesages
says "there is no table 'mesages'; did you mean 'messages'"
expect 2 cluster sql --export x.csv --explain run messages
[ ! -e x.csv ] || fail "a mistake makes a file"
ok
