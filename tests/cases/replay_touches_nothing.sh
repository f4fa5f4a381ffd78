#!/usr/bin/env bash
# Replays of programs that write files, use the network and sleep: no file is made or changed, nothing is sent,
# and no time passes.
source "$(dirname "$0")/lib.bash"
program sys_files
program sys_tcp
program sys_dirs
REPLAYS=1 NATIVE=no record_replay sleep "$PYTHON" -S -c 'import time; time.sleep(5); print("awake")'
start=$(date +%s%N)
"$BACKSTEP" replay --autopilot sleep >out
[ $(($(date +%s%N) - start)) -lt 3000000000 ] || fail "the replay slept"
cat >write.py <<'PY'
import os
open("made", "w").write("once")
print(os.stat("made").st_size, os.getcwd())
os.rename("made", "renamed")
PY
mkdir here
(cd here && "$BACKSTEP" record -q -o "$T/rec" "$PYTHON" -S "$T/write.py" >"$T/rec.out")
rm here/renamed
snapshot() { find "$T/here" "$T/rec" "$BACKSTEP_DIR" -printf '%p %s %T@ %m\n' | sort; }
snapshot >before
(cd here && "$BACKSTEP" replay --autopilot "$T/rec" >"$T/out")
same rec.out out "other output"
snapshot >after
same before after "the replay changed files"
# Nothing at all is there any more: not the folder, not the program's files.
rm -rf here
expect 0 "$BACKSTEP" replay --autopilot rec
if have strace && strace -o /dev/null true 2>/dev/null; then
  strace -f -o trace -e trace=%network,openat,open,creat,unlink,rename "$BACKSTEP" replay --autopilot sys_tcp >out 2>err ||
    { cat err; fail "replay under strace"; }
  if grep -E 'connect\(|bind\(|sendto\(|O_CREAT|unlink\(|rename\(' trace | grep -v ENOENT; then fail "the replay reached outside"; fi
fi
ok
