#!/usr/bin/env bash
# 'why' in gdb, which is about the present and the selected frame and does not move, and in Python; 'diff' in Python.
source "$(dirname "$0")/lib.bash"
need gdb
mkdir "$T/recordings"
gcc -g -O1 -o inventory "$SRC/examples/demo/inventory.c"
"$BACKSTEP" record -q -o "$T/recordings/crash" ./inventory "$SRC/examples/demo/orders.txt" >/dev/null 2>&1 || true
"$BACKSTEP" record -q -o "$T/recordings/crash2" ./inventory "$SRC/examples/demo/orders.txt" >/dev/null 2>&1 || true
cat >commands <<'GDB'
monitor when
why i
monitor when
why nothing_of_that_name
why
GDB
expect 0 "$BACKSTEP" replay crash -- -batch -x commands
cat err >>out  # what the server says
# The pointer is two characters of a line that was too long.
seen 'i = 0x3039' <out || { cat out >&2; fail "the value"; }
seen 'read from .*orders.txt, offset [0-9]*, 2 bytes' <out || { cat out >&2; fail "gdb: where it came from"; }
seen 'stainless angle bracket 90' <out || fail "gdb: the line of the file"
moments=$(grep "^@.*event" out | sort | uniq -c | awk "{print \$1}")
[ "$moments" = 2 ] || { cat out >&2; fail "it has moved"; }
seen "no variable 'nothing_of_that_name'" <out || fail "gdb: an unknown name"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
"$PYTHON" - <<'PY' || fail "Python"
import backstep
with backstep.open("crash") as s:
    s.goto("end")
    before = s.now()
    w = s.why("i")
    assert w["value"]["text"] == "0x3039" and w["type"] == "item *", w
    part = w["value"]["parts"][0]
    assert part["size"] == 2 and part["origin"]["kind"] == "read" and part["origin"]["source"].endswith("orders.txt"), part
    line = open(part["origin"]["source"], "rb").read()
    assert line[part["origin"]["offset"]:][:2] == b"90" and bytes.fromhex(part["bytes"]) == b"90"
    assert w["text"][0].startswith("i = 0x3039")
    assert s.now() == before
    d = s.diff("crash2")
    assert d["parted"] is False and "same way" in d["text"][0], d
    try:
        s.why("nothing_of_that_name")
        raise SystemExit("an unknown name")
    except backstep.Error as e:
        assert "nothing_of_that_name" in str(e)
PY
ok
