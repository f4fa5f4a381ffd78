#!/usr/bin/env bash
# 'record --until-failure' runs a program again and again and keeps the recording of the run that fails, and no other.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >third.sh <<'S'
n=$(cat count 2>/dev/null || echo 0)
echo $((n + 1)) >count
echo "this is run $((n + 1))"
case "$1 $n" in
  "exit 2") exit 7 ;;
  "signal 2") kill -SEGV $$ ;;
esac
S
recordings() { "$BACKSTEP" ls --json | jq -r '.[].name' | tr '\n' ' '; }
expect 7 "$BACKSTEP" record --until-failure sh third.sh exit
[ "$(cat count)" = 3 ] || fail "it did not end at the third run, but at $(cat count)"
says 'run 3 has failed \(exit status 7\); its recording is .*/third.sh-1$'
[ "$(recordings)" = "third.sh-1 " ] || fail "recordings: $(recordings)"
expect 0 "$BACKSTEP" replay --autopilot
grep -q '^this is run 3$' "$T/out" || fail "another run was kept: $(cat "$T/out")"
rm count
expect 139 "$BACKSTEP" record --until-failure=10 -o crash sh third.sh signal
says 'run 3 has failed \(SIGSEGV\)'
expect 0 "$BACKSTEP" replay --autopilot crash
# None fails.
rm -f count
expect 0 "$BACKSTEP" record --until-failure=4 --chaos sh third.sh never
[ "$(cat count)" = 4 ] || fail "$(cat count) runs instead of 4"
says 'no failure in 4 runs'
[ "$(recordings)" = "third.sh-1 $T/crash " ] || fail "recordings: $(recordings)"
# A command says what a failure is; it can ask the recording.
rm -f count
# shellcheck disable=SC2016  # for the command's shell
expect 0 "$BACKSTEP" record --until-failure=9 --fail-if '"$BACKSTEP" log "output run 2" x "$BACKSTEP_RECORDING" | grep -q . && [ $BACKSTEP_STATUS = 0 ]' \
  sh third.sh never
[ "$(cat count)" = 2 ] || fail "--fail-if: $(cat count) runs instead of 2"
says 'run 2 has failed \(exit status 0\)'
# What cannot be run is no failure that one looks for, and ends it.
expect 127 "$BACKSTEP" record --until-failure ./not-there
expect 2 "$BACKSTEP" record --fail-if true true
expect 2 "$BACKSTEP" record --until-failure=x true
# Ctrl-C ends the hunt and keeps the run that it came into: that may be the one that hangs.
rm -f count
# (Not by a command of the shell: dash drops a Ctrl-C that comes while it starts one.)
cat >hangs.sh <<'S'
[ ! -e count ] || exec perl -e 'open(F, ">", "count"); print F "2\n"; close(F); sleep(1000)'
echo 1 >count
S
"$PYTHON" - "$BACKSTEP" record --until-failure -o hung sh hangs.sh >"$T/out" 2>"$T/err" <<'PY' || fail "Ctrl-C: $?"
import os, signal, subprocess, sys, time
p = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
while not os.path.exists("count") or open("count").read().strip() != "2":
    time.sleep(0.02)
os.killpg(p.pid, signal.SIGINT)
assert p.wait(300) == -signal.SIGINT, p.returncode
PY
says 'run 2 was interrupted \(SIGINT\)'
[ "$(cat count)" = 2 ] || fail "it went on after Ctrl-C"
expect 0 "$BACKSTEP" info hung
ok
