#!/usr/bin/env bash
# shellcheck disable=SC2154  # port and server are set in gdb.bash
# The server survives garbage, half packets and a gdb that is killed; the next one finds the same place in time. Ctrl-C
# stops a long run and a long search. When the server is killed, no process of its stays behind.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile long <<'C'
volatile long counter, other;
int main(void) {
  for (long i = 0; i < 600000000; i++) counter += i;
  other = 1;
  return 0;
}
C
recorded long 0
serve long
"$PYTHON" -B - "$SRC/tests/cases" "$port" "0x$(nm long | sed -n 's/ T main$//p')" <<'PY'
import random, socket, sys, time
sys.path.insert(0, sys.argv[1])
import rsp
port = int(sys.argv[2])
def base(s):
    return next(int(line.split("-")[0], 16) for line in s.monitor("maps").splitlines() if line.rstrip().endswith("/long"))
s = rsp.Session(port)
place = s.goto("50%")
state = s.state()
s.socket.close()
random.seed(1)
for i in range(30):
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(bytes(random.randrange(256) for _ in range(random.randrange(300))))
    if i % 3 == 0:
        raw.sendall(b"$m0,ffffffffffffffff#00$vCont;s:p1.99#")
    raw.close()
s = rsp.Session(port)
for bad in ("m", "mxyz", "M0,1:zz", "Z9,0,0", "Z0", "P", "p9999", "G00", "H", "Hgz", "vCont;", "vFile:open:zz", "qXfer:auxv:read::",
            "QCatchSyscalls:1;zz", "T99999", "X0,4:ab", "vFile:pread:99,10,0", "unknown", "bx",
            "QCatchSyscalls:0"):
    s.ask(bad)
s.goto(place)
assert s.state() == state
# Zeroes are sent shortened; binary data survives.
before = s.runs
stack = int.from_bytes(bytes.fromhex(s.ask("p7")), "little")
assert bytes.fromhex(s.ask("m%x,300" % stack)) == s.ask("x%x,300" % stack).encode("latin-1")
assert s.runs > before
assert "triple:" in s.ask("qProcessInfo") and "permissions:rw;" in s.ask("qMemoryRegionInfo:%x" % stack)
assert int(s.ask("qShlibInfoAddr"), 16)
# Ctrl-C while it runs forwards …
start = time.time()
s.goto("start")
s.send("vCont;c")
time.sleep(0.05)
s.socket.sendall(b"\x03")
reply = s.read_packet()
assert reply.startswith(b"T02"), reply
place, state = s.when(), s.state()
assert place != s.goto("end")
# … and when it is about to stop for something else, from which a debugger may go on without a word.
main = base(s) + int(sys.argv[3], 16)
assert s.ask("Z0,%x,1" % main) == "OK"
for i in range(20):
    s.goto("start")
    s.socket.sendall(b"$vCont;c#a8\x03")
    reply = s.read_packet()
    if not reply.startswith(b"T02"):
        assert reply.startswith(b"T05"), reply
        s.send("vCont;c")
        reply = s.read_packet()
    assert reply.startswith(b"T02"), reply
assert s.ask("z0,%x,1" % main) == "OK"
s.goto("end")
# … and while it searches backwards: the present is where it was.
# (The breakpoint is inside of an instruction of the loop: never met, on a page that is executed all the time.)
assert s.ask("Z0,%x,1" % (main + 1)) == "OK"
here = s.when()
s.send("bc")
time.sleep(0.05)
s.socket.sendall(b"\x03")
reply = s.read_packet()
assert reply.startswith(b"T02") and s.when() == here, reply
s.goto(place)
assert s.state() == state
# More watchpoints than one message to a worker can hold.
for i in range(10000):
    assert s.ask("Z2,%x,8" % (0x300000000000 + 8 * i)) == "OK"
s.goto("99%")
assert "replaylog:end" in s.ask("vCont;c")
for i in range(10000):
    assert s.ask("z2,%x,8" % (0x300000000000 + 8 * i)) == "OK"
s.goto("25%")
print("stayed at", s.when())
PY
before=$("$PYTHON" -B - "$SRC/tests/cases" "$port" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import rsp
s = rsp.Session(int(sys.argv[2]))
print(s.when())
s.send("D")
PY
)
gdb -nx -q -batch -ex 'set remotetimeout 1000' -ex "target extended-remote 127.0.0.1:$port" -ex 'monitor when' -ex 'info registers rip' >gdb 2>&1
grep -qF "$before" gdb || { cat gdb; fail "the next gdb is not at $before"; }
children() { pgrep -f -- "replay --serve 0 $T/rec-long" || true; }
[ "$(children | wc -l)" -ge 2 ] || fail "there should be worker processes"
kill -9 "$server"
wait "$server" 2>/dev/null || true
no_children() { [ -z "$(children)" ]; }
comes no_children || fail "workers stay behind"
ok
