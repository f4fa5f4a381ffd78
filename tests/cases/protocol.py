"""Sends what docs/session-protocol.md says to a session and compares what comes with what it says; then what no client
should send.  protocol.py BACKSTEP DOCUMENT RECORDING"""
import json
import random
import re
import subprocess
import sys

backstep, document, recording = sys.argv[1:]
ANY = "…"


def start():
    return subprocess.Popen([backstep, "session", recording], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def same(expected, got):
    if expected == ANY:
        return True
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(same(expected[k], got[k]) for k in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(same, expected, got))
    return expected == got


session = start()


def send(line, to=session):
    to.stdin.write(line + "\n")
    to.stdin.flush()


def receive(of=session):
    line = of.stdout.readline()
    assert line, "the session has ended"
    return json.loads(line)


methods, documented, checked = set(), set(), 0
for line in open(document, encoding="utf-8"):
    if line.startswith("--> "):
        send(line[4:].rstrip("\n"))
        found = re.search(r'"method":"(\w+)"', line)
        if found:
            documented.add(found[1])
    elif line.startswith("<-- "):
        expected = json.loads(line[4:])
        got = receive()
        while got.get("method") in ("progress", "note"):
            got = receive()
        if not same(expected, got):
            sys.exit(f"documented: {json.dumps(expected, ensure_ascii=False)}\n     comes: {json.dumps(got, ensure_ascii=False)}")
        checked += 1
        if expected.get("id") == 2:
            methods = set(got["result"])
assert session.wait(60) == 0, "shutdown does not end it with status 0"
missing = methods - documented
if missing:
    sys.exit(f"no example in the document: {sorted(missing)}")
print(f"{checked} answers are as documented")

# Whatever comes is answered, and the session lives.
session = start()
rng = random.Random(1)
words = ["jsonrpc", "id", "method", "params", "specs", "count", "log", "goto", "to", "value", "expression", "call enter", "@1:0x1",
         "end", "-1", "1e400", "{", "}", "[", "]", '"', ":", ",", "null", "true", "\\u0000", "\\ud800", "99999999999999999999"]
for i in range(400):
    if i % 4 == 0:
        text = "".join(rng.choice(words) for _ in range(rng.randrange(1, 30)))
    elif i % 4 == 1:
        message = {"jsonrpc": "2.0", "id": rng.choice([1, "a", None, [], {}, 1.5, -3]), "method": rng.choice(sorted(methods) + [7, None, ""]),
                   "params": rng.choice([None, [], {}, 5, "x", {"specs": 3}, {"to": {}}, {"specs": ["call"]}, {"expression": "((("},
                                         {"address": -1, "size": 10}, {"process": 1e30}, {"count": -5, "to": "@@"}])}
        if message["method"] in ("shutdown", "coverage", "step", "profile", "calls", "log"):
            continue
        text = json.dumps(message)
    elif i % 4 == 2:
        text = "[" * rng.randrange(1, 5000)
    else:
        text = "".join(chr(rng.randrange(1, 0x250)) for _ in range(rng.randrange(1, 200))).replace("\n", " ").replace("\r", " ")
    send(text, session)
    send(json.dumps({"jsonrpc": "2.0", "id": 1000 + i, "method": "version"}), session)
    while receive(session).get("id") != 1000 + i:
        pass
# One that is too long.
send("x" * (17 << 20), session)
assert receive(session)["error"]["code"] == -32600
# A cancelled one.
send(json.dumps({"jsonrpc": "2.0", "id": 5000, "method": "count", "params": {"specs": ["every 1"]}}), session)
send(json.dumps({"jsonrpc": "2.0", "id": 5001, "method": "cancel", "params": {"id": 5000}}), session)
answers = {}
while not {5000, 5001} <= answers.keys():
    got = receive(session)
    answers[got.get("id")] = got
assert "result" in answers[5000] or answers[5000]["error"]["code"] == -32001, answers
session.stdin.close()
assert session.wait(60) == 0
# A last line without an end.
session = start()
session.stdin.write('{"jsonrpc":"2.0","id":1,"method":"version"}')
session.stdin.close()
assert receive(session)["id"] == 1
assert session.wait(60) == 0
# A client that disappears.
session = start()
send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "log", "params": {"spec": "every 1"}}), session)
session.stdin.close()
session.stdout.close()
session.wait(60)
print("bad messages are answered")
