#!/usr/bin/env bash
# python3: start-up, hashing with a random seed, big integers, json, regular expressions, sqlite, ctypes.
source "$(dirname "$0")/lib.bash"
[ -x "$PYTHON" ] || fail "python3 is not installed"
OUTPUT=same record_replay sum "$PYTHON" -S -c 'print(sum(i * i for i in range(200000)))'
cat >script.py <<'PY'
import collections, json, math, os, random, re, sys, time, zlib
print(sorted({"a", "b", "c", "d"}), list({"x", "y", "z", "w"}), hash("text"))
print(time.time(), os.getpid(), random.random(), os.urandom(4).hex())
counts = collections.Counter(re.findall(r"\w+", open(__file__).read()))
print(json.dumps(counts.most_common(5)), len(str(math.factorial(1000))), zlib.crc32(b"x" * 100000))
try:
    1 / 0
except ZeroDivisionError as e:
    print("caught", e, file=sys.stderr)
class Node:
    def __init__(self, depth): self.next = [Node(depth - 1) for _ in range(3)] if depth else []
    def count(self): return 1 + sum(n.count() for n in self.next)
print(Node(7).count())
for i in range(5):
    time.sleep(0.001)
sys.exit(3)
PY
record_replay script "$PYTHON" "$T/script.py"
[ "$(tail -n 1 script.err)" = "caught division by zero" ] || fail "stderr is not what python wrote"
ok
