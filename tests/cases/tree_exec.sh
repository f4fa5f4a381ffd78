#!/usr/bin/env bash
# execve of everything that can be executed, by every name: what the new program sees is what it would see natively.
source "$(dirname "$0")/lib.bash"
OUTPUT=same record_tree exec "$P/tree_exec"

# A program that becomes others is replayed to the end of the last one; -p means one of them.
chain=(bash -c 'echo one; exec bash -c "echo two; echo bad >&2; exec env WORD=three sh -c \"echo \\\$WORD; exit 3\""')
OUTPUT=same record_replay chain "${chain[@]}"
[ "$(field status <"$T/report")" = 3 ] || fail "the status is not the last program's: $(cat "$T/report")"
"$BACKSTEP" ps --json chain >"$T/ps"
"$PYTHON" - "$T/report" "$T/ps" <<'PY' || fail "the report does not add up: $(cat "$T/report" "$T/ps")"
import json, sys
report, ps = (json.load(open(f)) for f in sys.argv[1:])
assert len(ps) == 4
assert [(p["process"], p["ticks"], p["events"]) for p in report["processes"]] == [(p["number"], p["ticks"], p["events"]) for p in ps]
assert report["ticks"] == sum(p["ticks"] for p in ps) and report["events"] == sum(p["events"] for p in ps)
PY
expect 0 "$BACKSTEP" replay --autopilot -p '#2' chain
[ "$(cat "$T/out")" = two ] || fail "-p '#2' wrote $(cat "$T/out")"
# Damage in the middle of the chain is told once; each of the others can be replayed without it.
printf damage | dd of=chain/process-2.log bs=1 seek=5000 conv=notrunc status=none
expect 3 "$BACKSTEP" replay --autopilot chain
grep -q three "$T/out" || fail "the program behind the damage was not replayed"
[ "$(grep -c damaged "$T/err")" = 1 ] || fail "said about the damage: $(cat "$T/err")"
ok
