#!/usr/bin/env bash
# LMDB: a file that grows under those who have it mapped, robust locks in shared memory, locks on files; with and without
# writing through the mapping, among recorded processes and with one that is not.
source "$(dirname "$0")/../cases/lib.bash"
"$PYTHON" -c 'import lmdb' 2>/dev/null || skip "no LMDB here (apt-get install python3-lmdb)"
export LIMIT=100
cat >work.py <<'PY'
import lmdb, os, sys, time
path, name, seconds, how = sys.argv[1:]
env = lmdb.open(path, map_size=1 << 26, sync=False, writemap=how == "writemap")
end, n = time.time() + float(seconds), 0
while time.time() < end:
    with env.begin(write=True) as t:
        t.put(f"{name}{n}".encode(), os.urandom(30))
        n += 1
    if name == "stranger": time.sleep(0.0005)
with env.begin() as t:
    there = sum(t.get(f"{name}{i}".encode()) is not None for i in range(n))
print(name, "ok" if n > 10 and there == n else f"wrote {n}, found {there}")
PY
for how in plain writemap; do
  for round in 1 2 3; do
    NATIVE=no record_tree among sh -c "$PYTHON $T/work.py $T/db one 1 $how & $PYTHON $T/work.py $T/db two 1 $how; wait"
    [ "$(sort among.out)" = $'one ok\ntwo ok' ] || fail "$how, round $round: $(cat among.out among.err)"
    rm -rf db among
  done
  "$PYTHON" work.py "$T/db" stranger 4 $how >stranger.out &
  NATIVE=no record_tree with sh -c "$PYTHON $T/work.py $T/db one 2 $how & $PYTHON $T/work.py $T/db two 2 $how; wait"
  wait
  [ "$(sort with.out stranger.out)" = $'one ok\nstranger ok\ntwo ok' ] || fail "$how: $(cat with.out with.err stranger.out)"
  rm -rf db with
done
ok
