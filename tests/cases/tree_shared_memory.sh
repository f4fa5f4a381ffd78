#!/usr/bin/env bash
# Memory that processes of the tree share (anonymous, file, System V; atomics, locks, races, futexes, string
# instructions over several pages): each of them replays exactly, alone.
source "$(dirname "$0")/lib.bash"
for round in 1 2 3; do
  record_tree "shared$round" "$P/tree_shared"
  grep -q '^anonymous: sum 120000, locked 6000, text' "shared$round.out" || fail "wrong sums"
  grep -q '^file: written by a stranger$' "shared$round.out" || fail "the stranger's words are missing"
  # shellcheck disable=SC2010
  ! ls "shared$round" | seen '^shared-' || fail "control files were left behind"
done
RECORD_OPTIONS=--chaos=5 record_tree shared_chaos "$P/tree_shared"
cat >pool.py <<'PY'
import multiprocessing as mp

def work(n, queue, value, lock):
    for _ in range(100):
        with lock:
            value.value += n
    queue.put(n)

if __name__ == "__main__":
    queue, value, lock = mp.Queue(), mp.Value("i", 0), mp.Lock()
    processes = [mp.Process(target=work, args=(i, queue, value, lock)) for i in range(4)]
    for p in processes:
        p.start()
    print(sorted(queue.get() for _ in processes))
    for p in processes:
        p.join()
    print(value.value)
    with mp.Pool(3) as pool:
        print(pool.map(abs, range(-20, 0)))
PY
OUTPUT=same record_tree pool "$PYTHON" "$T/pool.py"
ok
