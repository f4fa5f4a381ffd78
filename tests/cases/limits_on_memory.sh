#!/usr/bin/env bash
# RLIMIT_AS, RLIMIT_DATA and RLIMIT_STACK hold for the program as if we had no memory ourselves, whoever set them and when;
# and a replay does not care which ones it has.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
TREE_OUTPUT=no OUTPUT=same record_tree limits "$P/sys_limits"
RECORD_OPTIONS=--check=deep REPLAY_OPTIONS=--check=deep REPLAYS=1 TREE_OUTPUT=no OUTPUT=same record_tree deep "$P/sys_limits"
"$BACKSTEP" dump limits -p '#11' | seen 'unmap .*\[stack\]' || fail "dump does not show a stack that became smaller"

# Limits from before the recording. (A replay has them, too.)
under() { # OPTION KB COMMAND...
  local option=$1 kilobytes=$2
  shift 2
  bash -c 'ulimit "$1" "$2"; shift 2; exec "$@"' - "$option" "$kilobytes" "$@"
}
soft() { OUTPUT=same record_tree "$1" bash -c "ulimit $2; ulimit -v; ulimit -d; ulimit -s; $3"; }
cat >hungry.py <<'PY'
import resource
blocks = []
try:
    while len(blocks) < 100:
        blocks.append(bytearray(10 << 20))
except MemoryError:
    n = len(blocks)
    blocks.clear()
    print("MemoryError", 25 < n < 40, resource.getrlimit(resource.RLIMIT_AS))
PY
soft inside "-v 400000" "$PYTHON '$T/hungry.py'"
soft data "-d 400000" "$PYTHON '$T/hungry.py'"
soft pipe "-v 300000" "$PYTHON '$T/hungry.py' | cat; ls / | head -n 1"
for option in -Sv -Sd -Ss; do
  run=(bash -c "ulimit -v; ulimit -d; ulimit -s; ulimit -Hv; $PYTHON '$T/hungry.py'; exit 3")
  expect 3 under $option 400000 "${run[@]}"
  cp out native
  expect 3 under $option 400000 "$BACKSTEP" record -q -o "$T/before$option" -- "${run[@]}"
  same native out "ulimit $option: other output"
  replay_tree "before$option" 1
done
expect 0 under -Sv 300000 "$BACKSTEP" replay --autopilot limits

# What it starts natively has the limit, too.
[ "$("$BACKSTEP" record -q --no-follow bash -c 'ulimit -v 500000; bash -c "ulimit -v"; ulimit -v')" = $'500000\n500000' ] ||
  fail "a program that is not recorded has another limit"

# Too little for the program, and for us where a hard limit cannot be raised.
echo 'char big[1 << 30]; int main() { return big[5]; }' >big.c
cc -o big big.c
expect 126 under -Sv 400000 "$BACKSTEP" record ./big
says "limits on memory .* leave no room"
if bash -c 'ulimit -v 400000; ulimit -v unlimited' 2>/dev/null; then
  expect 0 under -v 400000 "$BACKSTEP" record -q true
else
  expect 1 under -v 400000 "$BACKSTEP" record -o nothing true
  says "hard limit on address space .ulimit -Hv. is 400000 KB.*backstep record sh -c 'ulimit -v 400000; exec"
  [ ! -e nothing ] || fail "a recording of nothing is left"
  expect 1 under -v 400000 "$BACKSTEP" replay --autopilot limits
  says "hard limit on address space"
fi
expect 0 under -v 20000000 "$BACKSTEP" record -q -o enough bash -c 'ulimit -v'
[ "$(cat out)" = 20000000 ] || fail "a hard limit that leaves us enough is not seen"
ok
