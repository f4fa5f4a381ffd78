#!/usr/bin/env bash
# How far apart stored checkpoints are goes by the time that replaying takes, not by how long it has to wait for a processor: a
# replay that gets little of one makes no more of them, and is not held up by making them.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile long <<'C'
volatile long counter;
int main(void) {
  for (long i = 0; i < 100000000; i++)
    counter += i;
  return 0;
}
C
recorded long 0
# How long it takes to be replayed, in milliseconds of a processor.
cpu=$("$PYTHON" -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=2)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(int(1000 * (used.ru_utime + used.ru_stime)))' "$BACKSTEP" replay --autopilot -q rec-long)
# stops PID: it and all that descend from it stand still nearly all the time, until it ends.
cat >stops.py <<'PY'
import os, signal, sys, time
def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            state, above = f.read().rpartition(")")[2].split()[:2]
            return int(above) if state != "Z" else 0
    except OSError:
        return 0
def family(pid):
    parents = {int(p): parent(p) for p in os.listdir("/proc") if p.isdigit()}
    found = [pid] if parents.get(pid) else []
    for p in found:
        found += [child for child, above in parents.items() if above == p]
    return found
def send(pids, signo):
    for pid in pids:
        try:
            os.kill(pid, signo)
        except ProcessLookupError:
            pass
while pids := family(int(sys.argv[1])):
    send(pids, signal.SIGSTOP)
    time.sleep(0.1)
    send(pids, signal.SIGCONT)
    time.sleep(0.005)
PY
timeout -k 5 "$PATIENCE" "$BACKSTEP" checkpoints --make --every 0.02 -p 1 rec-long >out 2>&1 &
maker=$!
"$PYTHON" stops.py $maker
wait $maker || { cat out >&2; fail "no checkpoints: $?"; }
count=$(find rec-long/checkpoints -name '*.checkpoint' | wc -l)
say "$cpu ms, $count checkpoints"
# One in 20 ms; a debugger's replay takes a bit longer than that of the autopilot.
[ "$count" -ge 1 ] || fail "there are no checkpoints"
[ "$count" -le $((5 + 5 * cpu / 20)) ] || fail "$count checkpoints in $cpu ms"
ok
