#!/usr/bin/env bash
# `replay --autopilot` replays all processes; what they wrote comes out as it did, in the order in which they wrote it.
source "$(dirname "$0")/lib.bash"

# together NAME COMMAND...: stdout and stderr in one file, recorded and replayed (stderr's report is told apart by --json).
together() {
  local name=$1 i
  shift
  "$BACKSTEP" record -q -o "$name" "$@" </dev/null >"$name.both" 2>&1 || fail "$name ended with $?"
  # A process that is becoming another program has no log at this moment: its last words tell that it has ended.
  comes grep -q "${LAST:-}" "$name.both" || fail "$name does not come to its last words"
  tree_ended "$name"
  for i in 1 2; do
    "$BACKSTEP" replay --autopilot -q "$name" >"$name.again" 2>&1 || { tail -n 5 "$name.again" >&2; fail "$name: replay $i"; }
    same "$name.both" "$name.again" "$name: replay $i wrote something else, or in another order"
  done
}
together order "$P/tree_order"
together pipes bash -c 'seq 300 | while read -r n; do echo "$n"; done | tee copy | tail -n 5; (echo one; (echo two >&2; exit 3); echo $?)
  echo hidden >file; exec 5>&1 1>&2; echo to stderr; echo to stdout >&5; x=$(echo captured); echo "[$x]" >&5; cat file >/dev/null'
# More than waits in any buffer, from processes that run at the same time; and one that is silent for long.
together much bash -c 'for c in a b c; do (head -c 700000 /dev/zero | tr "\0" $c; echo) & done; wait; (for ((i = 0; i < 100000; i++)); do :; done) & echo end; wait'
# Many forks of one process: each is replayed from its fork on, not from the start.
together forks bash -c 'for ((i = 0; i < 60; i++)); do (echo $i); done; for ((i = 0; i < 20; i++)); do (sleep 0.01; echo late $i) & done; wait'
cat >pool.py <<'PY'
import multiprocessing, os, sys
def work(n):
    os.write(1 + n % 2, f"{n} {n * n}\n".encode())
    return n
if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(work, range(60), 1)), flush=True)
    p = multiprocessing.get_context("spawn").Process(target=work, args=(1000,))
    p.start()
    p.join()
PY
together pool "$PYTHON" pool.py
# The first process ends while its daemon goes on, with the same stdout.
LAST='last words' together daemon bash -c '(setsid bash -c "sleep 0.3; echo from the daemon; sleep 0.1; echo last words" &) ; echo gone'
grep -q 'last words' daemon.both || fail "the daemon was not recorded to its end"
if have make && have gcc; then
  mkdir build
  for name in a b c; do echo "int $name(void) { return 0; }" >build/$name.c; done
  printf 'all: a.o b.o c.o\n\t@echo linked >&2\n' >build/Makefile
  together make make -C build -j2
fi

# One line sums up; JSON has them all; -p means one.
"$BACKSTEP" replay --autopilot pipes 2>&1 >/dev/null | tail -n 1 >line
seen -E '^backstep: replayed all [0-9]+ logs exactly: [0-9]+ events, [0-9]+ ticks in' <line || fail "no summary: $(cat line)"
"$BACKSTEP" ps --json pipes >"ps"
"$BACKSTEP" replay --autopilot --json pipes 2>&1 >/dev/null | tail -n 1 | sed 's/^.*{"complete"/{"complete"/' >report
"$PYTHON" - <<'PY' || fail "the report: $(cat report)"
import json
report, ps = json.load(open("report")), json.load(open("ps"))
assert report["exact"] and report["complete"] and report["status"] == 0
assert [(p["process"], p["ticks"], p["events"], p["exact"]) for p in report["processes"]] == \
    sorted((p["number"], p["ticks"], p["events"], True) for p in ps)
for p in ps:
    assert p["start_ns"] > 1.6e18 and 0 <= p["duration_ns"] < 1e11, p
    assert p["end"]["kind"] == "exec" or 0 < p["cpu_ns"] < 1e11, p
PY
"$BACKSTEP" replay --autopilot -p '#1' pipes >one 2>/dev/null
[ "$(wc -l <one)" -lt "$(wc -l <pipes.both)" ] || fail "-p replayed more than one"
"$BACKSTEP" info --json pipes | "$PYTHON" -c '
import json, sys
tree, ps = json.load(sys.stdin)["tree"], json.load(open("ps"))
assert tree["logs"] == len(ps) and tree["events"] == sum(p["events"] for p in ps) and tree["ends"]["exit 0"] > 3, tree' || fail "info of a tree"
"$BACKSTEP" info pipes | seen '^  ends .*exit 0, ' || fail "info does not sum up"

# dump --all: one list, in order.
"$BACKSTEP" dump --all --json pipes | "$PYTHON" -c '
import json, sys
last, logs, events = 0, {}, 0
for line in sys.stdin:
    e = json.loads(line)
    events += 1
    assert e["event"] == logs.get(e["process"], -1) + 1, e
    logs[e["process"]] = e["event"]
    number = e.get("order", {}).get("given") or e.get("order", {}).get("got") or last
    assert number >= last, e
    last = number
assert events == sum(p["events"] for p in json.load(open("ps")))' || fail "dump --all"
"$BACKSTEP" dump --all -k write pipes | seen -E '^ +[0-9]+ +[0-9]+  @[0-9]+ +[0-9]+\.1  write\(' || fail "dump --all in words"
expect 2 "$BACKSTEP" dump --all -p 1 pipes

# A damaged log: which process it is, with status 3; the others are replayed all the same.
victim=$("$PYTHON" -c 'import json; print(next(p["number"] for p in json.load(open("ps")) if "tail" in p["argv"][0] and p["born"] == "exec"))')
copy_recording pipes bad
damage flip "bad/process-$victim.log" 20000
expect 3 "$BACKSTEP" replay --autopilot bad
says "process #$victim \(.*tail.*\): .*damaged"
says "1 of [0-9]+ logs not exactly"
grep -q 'to stdout' out || fail "others were not replayed"

# A process that was killed before its first event has an empty log: that is no damage.
copy_recording pipes killed
victim=$("$PYTHON" -c 'import json; print(max(p["number"] for p in json.load(open("ps"))))')
: >"killed/process-$victim.log"
rm "killed/process-$victim.json"
expect 0 "$BACKSTEP" replay --autopilot killed
expect 0 "$BACKSTEP" replay --autopilot -p "#$victim" killed
says 'killed before its first event'
expect 0 "$BACKSTEP" dump -p "#$victim" killed
expect 0 "$BACKSTEP" dump --all killed
expect 0 "$BACKSTEP" info -p "#$victim" killed
grep -q 'killed before its first event' out || fail "info does not say it"
"$BACKSTEP" ps killed | seen "^ *$victim  .*killed" || fail "ps does not say it"

# Nobody reads on: no hang, nobody left behind.
timeout "$PATIENCE" "$BACKSTEP" replay --autopilot much 2>/dev/null | head -c 10 >/dev/null || true
ok
