#!/usr/bin/env bash
# Order numbers: what depends on something in another process has the greater number, whatever carried it over.
source "$(dirname "$0")/lib.bash"
"$BACKSTEP" record -q -o order "$P/tree_order" >both 2>&1 || fail "tree_order ended with $?"
for number in 1 2 3 4 5; do "$BACKSTEP" dump --json -p "#$number" order; echo; done >events
"$PYTHON" - both <<'PY' || fail "the order is wrong"
import json, sys

logs = [[json.loads(line) for line in part.splitlines()] for part in open("events").read().split("\n\n")]
logs = [log for log in logs if log]
assert len(logs) == 5, len(logs)
first = lambda e: e["order"].get("given") or e["order"].get("got")
def calls(log, name, *args):
    return [e for e in logs[log] if e["name"] == name and tuple(e["args"][:len(args)]) == args]
def before(what, gives, gets):
    assert len(gives) == len(gets) > 0, (what, len(gives), len(gets))
    for a, b in zip(gives, gets):
        assert a["order"]["given"] < b["order"]["got"], (what, a, b)

numbers = [n for log in logs for e in log for n in e.get("order", {}).values()]
assert len(numbers) == len(set(numbers)), "a number was given twice"
for log in logs:
    given = [first(e) for e in log if "order" in e]
    assert given == sorted(given), "numbers of one log do not grow"
before("pipe", calls(0, "write", 101), calls(1, "read", 100))
before("socket", calls(1, "sendto", 103), calls(0, "recvfrom", 102))
forks = [e for e in logs[0] if e["name"] in ("fork", "clone")]
before("fork", forks, [next(e for e in log if "order" in e) for log in logs[1:]])
waits = [e for e in logs[0] if e["name"] == "wait4" and e["result"] > 0]
before("exit", [log[-1] for log in logs[1:3]], waits[:2])
before("signal", calls(0, "kill"), [e for e in logs[2] if e["kind"] == "signal"])
made = [e for e in logs[2] if e["name"] == "openat"]
before("file", made[-1:], [e for e in logs[0] if e["name"] == "access" and e["result"] == 0][-1:])

# … and what two processes write at the same time comes out in the order of their numbers.
written = sorted((first(e), e["text"].split('"')[1].replace("\\n", "")) for log in logs[3:] for e in log
                 if e["name"] == "write")
seen = open(sys.argv[1]).read().splitlines()
assert [text for _, text in written] == seen, next((a, b) for a, b in zip(written, seen) if a[1] != b)
changes = sum(a[0] != b[0] for a, b in zip(seen, seen[1:]))
print(f"{len(seen)} lines, {changes} changes of the writer", file=sys.stderr)

# A program of one process has no numbers, and no cost.
PY
"$BACKSTEP" record -q -o one /bin/echo one >/dev/null
! "$BACKSTEP" dump --json one | seen '"order"' || fail "a single process has order numbers"
ok
