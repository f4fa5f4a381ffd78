#!/usr/bin/env bash
# stdin, stdout, exit status, working directory, environment, arguments, limits, umask, ignored signals, open
# descriptors: the recorded program has what it would have had.
source "$(dirname "$0")/lib.bash"
cat >world.py <<'PY'
import os, resource, signal, sys
print(sys.argv[1:], os.getcwd(), sorted((k, v) for k, v in os.environ.items() if k not in ("_", "BACKSTEP_DIR")))
print([resource.getrlimit(r) for r in range(16)], oct(os.umask(0)))
print([s for s in range(1, 65) if s not in (32, 33) and signal.getsignal(s) == signal.SIG_IGN], signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(sorted(int(f) for f in os.listdir("/proc/self/fd")), os.isatty(0), os.isatty(1), os.getpgrp() == os.getpgid(0), os.getppid() > 1)
print(open("/proc/self/comm").read(), open("/proc/self/cmdline").read().split("\0"), os.path.basename(os.readlink("/proc/self/exe")))
print(len(sys.stdin.read()), os.fstat(0).st_size, os.lseek(0, 0, 1))
status = open("/proc/self/status").read().split("\n")
print([l for l in status if l.split(":")[0] in ("Uid", "Gid", "Groups", "Umask", "SigBlk", "SigIgn", "NoNewPrivs", "Seccomp", "Threads", "CapEff", "TracerPid", "Name")])
os.write(5, b"through descriptor 5\n")
sys.exit(77)
PY
seq 1 1000 >input
run() {
  (
    cd /usr || exit
    umask 027
    ulimit -n 300 -s 4096
    trap '' USR1 PIPE
    exec env -i HOME=/nowhere TEXT='a "b"' BACKSTEP_DIR="$BACKSTEP_DIR" "$@" "$PYTHON" -S "$T/world.py" one '' 'two  words' \
      <"$T/input" >"$out" 2>&1 5>>"$out"
  )
}
out=$T/native
[ "$(status run)" = 77 ] || { cat native; fail "the script itself is wrong"; }
out=$T/recorded
[ "$(status run "$BACKSTEP" record -q -o "$T/rec")" = 77 ] || { cat recorded; fail "not the program's status"; }
same native recorded "the program sees another world"
"$BACKSTEP" replay --autopilot rec >replayed 2>err || { cat err; fail "replay"; }
grep -v 'through descriptor 5' recorded >expected || true
same expected replayed "other output in the replay"
# The file position of stdin moves as it does natively: the next program goes on where the recorded one stopped.
{ "$BACKSTEP" record -q -o "$T/rec2" "$PYTHON" -S -c 'import os; os.read(0, 10)'; cat; } <input >recorded
[ "$(wc -c <recorded)" = $(($(wc -c <input) - 10)) ] || fail "stdin was read ahead"
# Closed descriptors at the start stay closed.
expect 0 bash -c "\"$BACKSTEP\" record -q -o '$T/rec3' -- \"$PYTHON\" -S -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))' <&-"
grep -q '1, 2' out || { cat out; fail "descriptors"; }
# Of /proc/self only what is the program's: no handlers, threads or mappings of ours.
expect 0 "$BACKSTEP" record -q -o "$T/rec4" cat /proc/self/status
grep -Eqx 'SigCgt:.0{16}' out && grep -Eqx 'Threads:.1' out || { cat out; fail "status shows our handlers or threads"; }
[ "$(awk '/^VmSize/ {print $2}' out)" -lt 100000 ] || { cat out; fail "status shows our address space"; }
expect 0 "$BACKSTEP" replay --autopilot "$T/rec4"
expect 0 "$BACKSTEP" record -q -o "$T/rec5" cat /proc/self/smaps
! grep -q backstep out || fail "smaps shows our mappings"
grep -Eq '^[0-9a-f]+-[0-9a-f]+ r-xp .*/cat$' out || { cat out; fail "smaps does not show the program"; }
expect 0 "$BACKSTEP" record -q -o "$T/rec7" cat /proc/self/smaps_rollup
cp out rollup
cat /proc/self/smaps_rollup >native
[ "$(awk '{ print $1 }' native | tail -n +2)" = "$(awk '{ print $1 }' rollup | tail -n +2)" ] || { cat rollup; fail "smaps_rollup has other lines"; }
grep -Eq '^[0-9a-f]+-29ffff000000 ---p 00000000 00:00 0 +.rollup.$' rollup || { cat rollup; fail "smaps_rollup shows our addresses"; }
[ "$(awk '/^Rss/ { print $2 }' rollup)" -lt 6000 ] || { cat rollup; fail "smaps_rollup has our memory"; }
if [ -e /proc/self/numa_maps ]; then
  expect 0 "$BACKSTEP" record -q -o "$T/rec8" cat /proc/self/numa_maps
  ! grep -Eq "backstep|^[3-7]...........\b" out || { cat out; fail "numa_maps shows our mappings"; }
  grep -Eq '^[0-9a-f]{8,} default file=.*/cat .*N0=.* kernelpagesize_kB=4$' out || { cat out; fail "numa_maps does not show the program"; }
  grep -Eq '^[0-9a-f]{8,} default stack anon=' out || { cat out; fail "numa_maps does not show the stack"; }
fi
expect 0 "$BACKSTEP" record -q -o "$T/rec6" cat /proc/self/stat
[ "$(awk '{print $20}' out)" = 1 ] || { cat out; fail "stat shows our threads"; }
ok
