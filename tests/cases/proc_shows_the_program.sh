#!/usr/bin/env bash
# What a program sees of itself in /proc by way of folders, threads and memory, and of its children.
source "$(dirname "$0")/lib.bash"
OUTPUT=same record_tree proc "$P/sys_proc"
RECORD_OPTIONS=--check=deep record_tree deep "$P/sys_proc"
# Programs that were executed: their own name, seen by another recorded process.
cat >look.py <<'PY'
import os, subprocess
p = subprocess.Popen(["sleep", "100"], env={"A": "b"})
print(os.path.basename(os.readlink(f"/proc/{p.pid}/exe")), open(f"/proc/{p.pid}/cmdline").read().split("\0"),
      open(f"/proc/{p.pid}/environ").read())
p.terminate()
PY
expect 0 "$BACKSTEP" record -q -o other "$PYTHON" look.py
grep -qF "sleep ['sleep', '100', ''] A=b" out || { cat out; fail "another recorded process shows us"; }
tree_ended other
replay_tree other 2 --incomplete
ok
