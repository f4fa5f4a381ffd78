#!/usr/bin/env bash
# shmctl: a segment is attached as often as the programs have attached it, whatever we map beside them, and also if others
# that are not recorded have it.
source "$(dirname "$0")/lib.bash"
for round in 1 2 3; do OUTPUT=same record_tree "attached$round" "$P/tree_attached"; done
RECORD_OPTIONS=--chaos=3 OUTPUT=same REPLAYS=1 record_tree chaos "$P/tree_attached"
cat >segment.py <<'PY'
import ctypes, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
def attached(id):
    about = (ctypes.c_ulong * 14)()
    assert libc.shmctl(id, 2, about) == 0
    return about[11]
if len(sys.argv) > 1:
    assert libc.shmat(int(sys.argv[1]), None, 0) > 0
    print("another", attached(int(sys.argv[1])), flush=True)
    input()
else:
    id = libc.shmget(0, 8192, 0o1600)
    p = libc.shmat(id, None, 0)
    print("own", attached(id), flush=True)
    other = subprocess.Popen([sys.executable, __file__, str(id)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(other.stdout.readline(), attached(id), flush=True)
    other.communicate("\n")
    print("own", attached(id))
    libc.shmctl(id, 0, None)
PY
OUTPUT=same TREE_OUTPUT=no record_tree both "$PYTHON" "$T/segment.py"
# Natively the other one sees what it sees: our second attachment as well.
NATIVE=no RECORD_OPTIONS=--no-follow record_replay outsider "$PYTHON" "$T/segment.py"
[ "$(grep -v another outsider.out | tr -d '\n')" = "own 1 2own 1" ] || { cat outsider.out; fail "wrong with an outsider"; }
ok
