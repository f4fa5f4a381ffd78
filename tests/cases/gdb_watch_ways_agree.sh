#!/usr/bin/env bash
# Watchpoints work in two independent ways; both find the same changes at the same places, with all kinds of stores:
# vectors, strings, x87, segments, signal frames, code that changes.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export BACKSTEP
for program in isa_sse isa_avx2 isa_strings isa_x87 isa_misc isa_segments isa_xsave sig_nested smc_wx; do
  "$BACKSTEP" record -q -o "rec-$program" "$P/$program" >/dev/null 2>&1 || true
  PYTHONPATH=$SRC/tests/cases timeout "$PATIENCE" "$PYTHON" -B "$SRC/tests/cases/watch_ways.py" "$T/rec-$program" || fail "$program"
done
ok
