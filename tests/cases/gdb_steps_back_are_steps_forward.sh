#!/usr/bin/env bash
# Every instruction stepped forwards is stepped backwards in reverse order with the same registers and memory, and
# after a hundred random jumps a control point still means the same state. Programs with signals, with code that
# changes, and an interpreter.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
walks() {
  serve "$1"
  rsp symmetry "$2" 1
  rsp walk "$3" 2
  stop_server
}
for program in sig_async jit; do
  "$BACKSTEP" record -q -o "rec-$program" "$P/$program" >/dev/null 2>&1 || fail "$program"
done
"$BACKSTEP" record -q -o rec-python "$PYTHON" -c 'print(sum(i * i for i in range(9999)))' >/dev/null
walks sig_async 40 60
walks jit 40 60
walks python 40 60
ok
