#!/usr/bin/env bash
# PyPy: another compiler that makes code while it runs, and another collector.
source "$(dirname "$0")/../cases/lib.bash"
have pypy3 || skip "no pypy3 here (apt-get install pypy3)"
export LIMIT=120
cat >script.py <<'PY'
import json, re, subprocess, threading
def work(n):
    table, total = {}, 0
    for i in range(n):
        key = i * 7919 % 5003
        table[key] = table.get(key, 0) + i
        total += len(str(key))
    return total, len(table), sum(table.values())
print(work(1000000))
class Node:
    def __init__(self, depth): self.next = [Node(depth - 1) for _ in range(3)] if depth else []
    def count(self): return 1 + sum(n.count() for n in self.next)
print(Node(9).count(), len(json.dumps({str(i): [i] * 3 for i in range(2000)})))
print(len(re.findall(r"(\d+)7", " ".join(map(str, range(20000))))))
results = []
threads = [threading.Thread(target=lambda n=n: results.append(work(100000 + n)[0])) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(results))
print(subprocess.run(["echo", "child"], capture_output=True).stdout)
PY
OUTPUT=same record_tree pypy pypy3 "$T/script.py"
ok
