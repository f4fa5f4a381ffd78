#!/usr/bin/env bash
# Stored checkpoints of programs with threads, signals, children, shared memory, generated code: restored, each is what
# a replay finds at that moment; and from there the recording replays to its end, memory checksums included.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export LIMIT=$PATIENCE
# exact NAME SECONDS COMMAND...: SECONDS between two checkpoints.
exact() {
  local name=$1 every=$2 process ticks
  shift 2
  "$BACKSTEP" record -q --check=deep -o "$T/rec-$name" "$@" >/dev/null 2>&1 </dev/null || true
  for process in $("$BACKSTEP" ps --json "rec-$name" | "$PYTHON" -c '
import json, sys
print(*[p["number"] for p in json.load(sys.stdin)][:4])'); do
    expect 0 "$BACKSTEP" checkpoints --make --every "$every" -p "$process" --json "rec-$name"
  done
  expect 0 "$BACKSTEP" checkpoints --verify --json "rec-$name"
  # Some of them, spread over the run.
  ticks=$("$PYTHON" -c '
import json, sys
ticks = sorted(c["at"]["tick"] for c in json.load(open("out")) if c["process"] == 1)
assert ticks  # how many there is time for on a busy machine is another question
print(*ticks[::max(1, len(ticks) // 5)])') || fail "$name has no checkpoints"
  [ "${LEAST:-4}" -gt 1 ] || return 0  # so short that a session would not use them
  serve "$name"
  # shellcheck disable=SC2086
  rsp onwards $ticks >/dev/null
  stop_server
}
exact signals 0.02 "$P/sig_async" 200
exact threads 0.01 "$P/thr_async" 5
LEAST=2 exact code 0.03 "$P/thr_jit"
LEAST=1 exact shared 0.002 "$P/tree_shared"
LEAST=1 exact spawned 0.002 "$P/tree_spawn"
LEAST=1 exact files 0.06 "$P/sys_memfd"
if grep -q avx512vl /proc/cpuinfo; then LEAST=1 exact vectors 0.001 "$P/isa_avx512"; fi
ok
