#!/usr/bin/env bash
# 'cluster record' starts the programs of several hosts and gathers what they leave. What went through a proxy that was not recorded, so that no
# address agrees, is found by its content; datagrams that were too long, unknown peers and refused connections are told.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cases/cluster.bash
source "$(dirname "$0")/cluster.bash"
two_hosts
cat >talk.py <<'PY'
import os, socket, sys, time
def patient(address):
    while True:
        s = socket.socket()
        if s.connect_ex(address) == 0: return s
        time.sleep(0.1)
role = sys.argv[1]
if role == "server":
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("", 7001))
    l = socket.socket()
    l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    l.bind(("", 7000)), l.listen()
    c, _ = l.accept()
    while data := c.recv(333): c.sendall(data[::-1])
    c.shutdown(socket.SHUT_WR)
    got = [u.recvfrom(8), u.recvfrom(100), u.recvfrom(100)]
    u.sendto(b"answer", got[0][1])
elif role == "proxy":
    import threading
    def pump(a, b):
        while data := a.recv(77): b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    l = socket.socket()
    l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    l.bind(("", 7002)), l.listen()
    a, _ = l.accept()
    b = patient(("10.77.0.2", 7000))
    t = threading.Thread(target=pump, args=(a, b))
    t.start(), pump(b, a), t.join()
else:
    refused = socket.socket()
    assert refused.connect_ex(("10.77.0.2", 9)) != 0
    s = patient(("10.77.0.1", 7002))
    for k in range(10): s.sendall(b"%04d" % k * (k + 3))
    s.shutdown(socket.SHUT_WR)
    while s.recv(100): pass
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for what in (b"longer than eight", b"the same", b"the same"): u.sendto(what, ("10.77.0.2", 7001))
    u.sendto(b"nobody", ("10.77.0.2", 7999))
    assert u.recv(100) == b"answer"
PY
on "$A" "$PYTHON" talk.py proxy &
proxy=$!
cat >cluster.toml <<TOML
output = "run"
launch = "ip netns exec {host} {command}"
[[host]]
name = "$B"
command = ["$PYTHON", "talk.py", "server"]
folder = "$T/b"
backstep = "$BACKSTEP"
[[host]]
name = "$A"
command = "$PYTHON talk.py client; exit 0"
folder = "$T/a"
backstep = "$BACKSTEP"
[[host]]
name = "idle"
command = "sleep 100000"
launch = "ip netns exec $A {command}"
folder = "$T/idle"
backstep = "$BACKSTEP"
daemon = true
TOML
expect 0 "$BACKSTEP" cluster record cluster.toml
seen '3 of 3' <out || fail "not all hosts: $(cat out)"
wait $proxy
expect 0 "$BACKSTEP" cluster ls run --messages --json
"$PYTHON" - "$A" "$B" <<'PY' || { "$BACKSTEP" cluster ls run --messages >&2; "$BACKSTEP" cluster check run >&2; fail "the run"; }
import json, sys
a, b = sys.argv[1:]
run = json.load(open("out"))
assert {p["host"] for p in run["processes"]} == {a, b, "idle"}
tcp = [c for c in run["channels"] if c["kind"] == "tcp" and c["by_content"]]
assert len(tcp) == 1 and tcp[0]["bytes"] == [300, 300], run["channels"]
to = [m for m in run["messages"] if m["channel"].startswith("udp")]
told = sorted((m["sent"]["process"].split("/")[0], m["bytes"]) for m in to)
assert told == [(a, 8), (a, 8), (a, 8), (b, 6)], told
firsts = {(m["sent"]["event"], m["received"]["event"]) for m in to if m["sent"]["process"].startswith(a)}
assert len({s for s, _ in firsts}) == 3 and sorted(firsts) == sorted(firsts, key=lambda pair: pair[1]), firsts
# A port that the kernel has chosen is in no name.
names = {m["channel"] for m in to}
assert sorted((n.split("/")[0], n.partition(":")[2]) for n in names) == [("udp " + a, ""), ("udp " + b, "7001 #1")], names
lost = [u for u in run["unmatched"] if u["sent"] and u["peer"].endswith(":7999")]
assert len(lost) == 1 and lost[0]["bytes"] == 6, run["unmatched"]
PY
expect 0 "$BACKSTEP" cluster check run
grep -q 'could not connect to 10.77.0.2:9' out || { cat out >&2; fail "nobody says what was refused"; }
grep -q '7999' out || { cat out >&2; fail "nobody says what was sent to nobody"; }
# Mistakes in the file.
printf 'output = "x"\n[[host]]\nname = "A"\ncomand = "ls"\n' >wrong.toml
expect 2 "$BACKSTEP" cluster record wrong.toml && says "line 4: there is no 'comand'"
printf 'output = "x"\n[[host]]\nname = \n' >wrong.toml
expect 2 "$BACKSTEP" cluster record wrong.toml && says 'wrong.toml, line 3'
ok
