#!/usr/bin/env bash
# Likewise in programs with threads, and without signals: calls that were expected not to wait, and do, stop nobody else.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/inject/inject.bash"
injected_everywhere 173 threads
LIMIT=$PATIENCE OUTPUT=same record_tree stolen "$P/thr_stolen"
# Python's socket and sleep, which hung in most runs.
cat >beside.py <<'PY'
import socket, threading, time
a, b = socket.socketpair()
over = False
def sleep():
    while not over:
        time.sleep(0.0001)
def send():
    for i in range(300):
        time.sleep(i % 5 / 10000)
        a.send(b"x")
threads = [threading.Thread(target=sleep) for _ in range(2)] + [threading.Thread(target=send)]
for t in threads:
    t.start()
got = 0
while got < 300:
    got += len(b.recv(1000))
over = True
for t in threads:
    t.join()
print(got)
PY
LIMIT=$PATIENCE OUTPUT=same record_replay python "$PYTHON" "$T/beside.py"
ok
