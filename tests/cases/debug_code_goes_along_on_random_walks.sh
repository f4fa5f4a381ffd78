#!/usr/bin/env bash
# Random debug code along with sessions that go forwards and backwards at random (tests/fuzz/debug_walk.py), in threads, signal
# handlers and forked children: the run is the same as without it, and what it says is what it says from the beginning on.
# SEEDS are the seeds, GDB_SEEDS those of walks in gdb.
source "$(dirname "$0")/lib.bash"
need g++ gdb
mkdir "$T/recordings"
gcc -g -O1 -pthread -o victim "$SRC/tests/fuzz/victim.c"
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/victim" ./victim
export BACKSTEP_DEBUG_SECONDS=0.2
walk() {  # SEED [--gdb]
  say "seed $*"
  timeout "$PATIENCE" "$PYTHON" "$SRC/tests/fuzz/debug_walk.py" "$1" "$T/recordings/victim" "$T/walk" "${@:2}" >&2 ||
    fail "debug_walk.py $1 ${*:2} (the code is in $T/walk)"
}
for seed in ${SEEDS-1 5}; do walk "$seed"; done
for seed in ${GDB_SEEDS-1}; do walk "$seed" --gdb; done
expect 0 "$BACKSTEP" replay --autopilot --check=deep victim
ok
