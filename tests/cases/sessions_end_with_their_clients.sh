#!/usr/bin/env bash
# A question that would take a quarter of an hour ends when its client cancels it, however early, and when the client
# vanishes, whichever end of it goes first, and when the one that listens at a socket ends.
source "$(dirname "$0")/lib.bash"
cat >long.c <<'C'
int main(void) {
  for (volatile int i = 0; i < 300000000; i++) {}
}
C
gcc -O1 -o long long.c
mkdir "$T/recordings"
expect 0 "$BACKSTEP" record -q -o "$T/recordings/long" ./long
cat >ask.py <<'PY'
import json, os, subprocess, sys, time
patience = float(os.environ.get("PATIENCE", 600))
asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"specs": ["every 1"]}}) + "\n"
cancel = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "cancel", "params": {"id": 1}}) + "\n"

def start():
    return subprocess.Popen([sys.argv[1], "session", "long"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

def say(session, text):
    session.stdin.write(text)
    session.stdin.flush()

def ends(session, what):
    try:
        session.wait(patience)
    except subprocess.TimeoutExpired:
        session.kill()
        sys.exit(f"the session lives on: {what}")

for late in 0, 0.3, 2:  # while it opens the recording, while it prepares, while it counts
    session = start()
    say(session, asked)
    time.sleep(late)
    say(session, cancel)
    session.stdin.close()
    answers = {}
    for line in session.stdout:
        answers[json.loads(line).get("id")] = json.loads(line)
    ends(session, f"cancelled after {late} s")
    assert answers[1]["error"]["code"] == -32001, answers
for late in 0, 2:
    session = start()
    say(session, asked)
    time.sleep(late)
    session.stdin.close()
    time.sleep(1)
    session.stdout.close()
    ends(session, f"stdin closed after {late} s, stdout a second later")
session = start()
say(session, asked)
session.stdout.close()
ends(session, "stdout closed")

# On a socket each client has a session of its own: one is answered while another one waits, and all end with the server.
import signal, socket
server = subprocess.Popen([sys.argv[1], "session", "--listen", "socket", "long"], stderr=subprocess.PIPE, text=True)
assert "a session is at" in server.stderr.readline()

def client():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(patience)
    s.connect("socket")
    return s

busy, other = client(), client()
busy.sendall(asked.encode())
assert b"progress" in busy.recv(100)
other.sendall(b'{"id": 1, "method": "version"}\n')
assert b'"result"' in other.recv(1000)
client().close()
server.send_signal(signal.SIGINT)
ends(server, "interrupted")
while busy.recv(1000): pass  # what was on its way, and then the end
assert not other.recv(1000) and not os.path.exists("socket")
PY
"$PYTHON" ask.py "$BACKSTEP" || fail "a session that does not end"
ok
