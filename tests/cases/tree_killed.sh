#!/usr/bin/env bash
# kill -9 of any process of a tree, at random moments: what each had logged until then replays. ROUNDS, SEED and KINDS for
# more.
source "$(dirname "$0")/lib.bash"
mkdir bash multiprocessing redis
cat >bash/run <<'SH'
"$1" &
while :; do
  seq 300 | sort -R | tail -n 1
  (echo subshell; /bin/true; exec cat /dev/null)
  x=$(echo "$(date)")
done
SH
cat >multiprocessing/run <<'SH'
exec python3 -c '
import multiprocessing, time
def square(x):
    time.sleep(0.001 * (x % 3))
    return x * x
if __name__ == "__main__":
    while True:
        with multiprocessing.Pool(3) as pool:
            pool.map(square, range(40))
'
SH
cat >redis/run <<'SH'
redis-server --port 0 --unixsocket sock --save 1 1 --dir . >/dev/null &
until redis-cli -s sock ping 2>/dev/null | seen PONG; do :; done
while :; do
  redis-benchmark -s sock -c 3 -n 300 -q -t set,get,lpush >/dev/null
  redis-cli -s sock bgsave >/dev/null
done
SH
read -ra kinds <<<"${KINDS:-bash}"
seed=${SEED:-1}
for ((round = 0; round < ${ROUNDS:-5}; round++, seed++)); do
  kind=${kinds[round % ${#kinds[@]}]}
  rm -rf killed folder
  cp -r "$kind" folder
  # Bigger programs take longer to come to something.
  (cd folder && LONGEST=$([ "$kind" = bash ] && echo 0.5 || echo 2.5) \
    "$PYTHON" "$SRC/tests/cases/kill_tree.py" $seed "$T/killed" "$BACKSTEP" bash "$T/folder/run" "$P/tree_threads")
  [ -e killed/manifest.json ] || continue  # else it was killed before there was a recording
  expect 0 "$BACKSTEP" ps killed
  (replay_tree killed 1 --incomplete) || { "$BACKSTEP" ps killed >&2; fail "seed $seed: killed processes ($kind) do not replay"; }
done
# Killed while the log grew: the new chunk is still all zeroes. That is no damage.
expect 137 "$BACKSTEP" record -q -o grown bash -c 'bash -c "kill -9 \$PPID"; echo survived'
tree_ended grown
truncate -s +65536 grown/process-1.log
expect 0 "$BACKSTEP" replay --autopilot grown
says 'recorder was (ended|killed)'
ok
