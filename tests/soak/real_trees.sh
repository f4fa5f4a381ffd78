#!/usr/bin/env bash
# More programs with children and threads: ffmpeg, tmux, gdb (with threads and a fork to debug), node, multiprocessing.
source "$(dirname "$0")/../cases/lib.bash"
need ffmpeg tmux gdb node
record_tree ffmpeg ffmpeg -y -nostdin -loglevel error -f lavfi -i testsrc=duration=1:size=160x120:rate=10 \
  -threads 2 -c:v mpeg4 out.mp4
cat >tmux.sh <<'SH'
export TMUX_TMPDIR=$PWD TERM=xterm
unset TMUX
tmux -f /dev/null new-session -d -s t -x 80 -y 24 'bash --norc'
tmux send-keys -t t 'echo hello-$((40+2))' Enter
tmux split-window -t t 'bash --norc -c "seq 5; sleep 0.3"'
for ((i = 0; i < 100; i++)); do tmux capture-pane -p -t t.0 | seen -x hello-42 && break; sleep 0.1; done
tmux capture-pane -p -t t.0 | grep -x hello-42
tmux kill-server
SH
TREE_OPTIONS=--incomplete record_tree tmux bash "$T/tmux.sh"
grep -q hello-42 tmux.out || fail "nothing in tmux"
TREE_OUTPUT=no record_tree gdb gdb -q -nx -batch -ex 'break pthread_join' -ex run -ex 'info threads' -ex 'thread apply all bt 2' \
  -ex delete -ex continue "$P/thr_sync"
grep -q 'exited normally' gdb.out || { cat gdb.out; fail "gdb did not get to the end of a program with threads"; }
TREE_OUTPUT=no record_tree gdb-fork gdb -q -nx -batch -ex 'set follow-fork-mode child' -ex 'break exit' -ex run -ex bt -ex kill "$P/tree_family"
grep -q 'Breakpoint 1' gdb-fork.out || { cat gdb-fork.out; fail "gdb did not stop in a child"; }
cat >pool.py <<'PY'
import multiprocessing
def square(n):
    return n * n
if __name__ == "__main__":
    for method in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.map(square, range(50)))
        queue, lock, value = context.Queue(), context.Lock(), context.Value("i", 0)
        p = context.Process(target=queue.put, args=({"a": 1},))
        p.start()
        print(queue.get())
        p.join()
PY
OUTPUT=same TREE_OPTIONS=--incomplete record_tree pool "$PYTHON" "$T/pool.py"
cat >child.js <<'JS'
process.on("message", m => { process.send(m + 1); process.disconnect(); });
JS
cat >parent.js <<'JS'
const cp = require("child_process");
console.log(cp.execSync("echo sync").toString().trim());
cp.exec("echo async; exit 3", (e, out) => {
  console.log(out.trim(), e.code);
  const c = cp.fork(process.argv[2]);
  c.on("message", m => console.log("forked", m));
  c.send(41);
});
JS
OUTPUT=same record_tree node node "$T/parent.js" "$T/child.js"
grep -qx 'forked 42' node.out || fail "node's child does not answer"
ok
