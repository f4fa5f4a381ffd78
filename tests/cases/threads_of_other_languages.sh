#!/usr/bin/env bash
# The threads of C++, OpenMP, Rust and Python (Go, Java and node: `./run soak`).
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_cxx
same_program thr_omp
OMP_WAIT_POLICY=active same_program thr_omp
OMP_WAIT_POLICY=passive same_program thr_omp
if [ -x "$P/thr_rust" ]; then same_program thr_rust; fi
cat >threads.py <<'PY'
import concurrent.futures, queue, sys, threading, time
sys.setswitchinterval(0.0005)
jobs, results = queue.Queue(5), queue.Queue()
def worker(n):
    for job in iter(jobs.get, None):
        results.put(sum(i * i for i in range(job)))
workers = [threading.Thread(target=worker, args=(n,)) for n in range(4)]
for w in workers: w.start()
for job in range(200): jobs.put(job * 5)
for w in workers: jobs.put(None)
for w in workers: w.join()
print(sum(results.get() for _ in range(200)))
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    print(sum(pool.map(lambda n: len(str(2 ** n)), range(500))))
lock, total = threading.Lock(), 0
def add():
    global total
    for _ in range(2000):
        with lock: total += 1
threads = [threading.Thread(target=add, daemon=True) for _ in range(5)]
for t in threads: t.start()
for t in threads: t.join()
print(total)
event, barrier, local = threading.Event(), threading.Barrier(3), threading.local()
timer = threading.Timer(0.005, event.set)
timer.start()
print(event.wait(30), threading.Event().wait(0.002))
def meet():
    local.value = threading.current_thread().name
    barrier.wait()
    assert local.value == threading.current_thread().name
threads = [threading.Thread(target=meet) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
# What the interpreter's threads race for.
order = []
threads = [threading.Thread(target=lambda n=n: [order.append(n) for _ in range(300)]) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(len(order))
print(hash(tuple(order)), file=sys.stderr if "--show" in sys.argv else open("/dev/null", "w"))
PY
OUTPUT=same record_replay python "$PYTHON" "$T/threads.py"
record_replay python-race "$PYTHON" "$T/threads.py" --show
ok
