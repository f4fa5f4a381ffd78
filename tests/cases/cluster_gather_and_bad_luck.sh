#!/usr/bin/env bash
# Gathering goes on where it was, and says what is wrong: hosts of one name, a recording twice, a log that is cut off or damaged, a host that is
# missing, files that are not what they were. The rest works all the same.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >pair.py <<'PY'
import socket, sys, time
if sys.argv[1] == "server":
    l = socket.socket()
    l.bind(("127.0.0.1", int(sys.argv[2]))), l.listen()
    c, _ = l.accept()
    while data := c.recv(1000): c.sendall(data.upper())
else:
    while True:
        s = socket.socket()
        if s.connect_ex(("127.0.0.1", int(sys.argv[2]))) == 0: break
        time.sleep(0.1)
    for k in range(20): s.sendall(b"x" * (k + 1)), s.recv(1000)
PY
port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BACKSTEP" record -q --host X -o server "$PYTHON" pair.py server "$port" &
server=$!
"$BACKSTEP" record -q --host X -o client "$PYTHON" pair.py client "$port" || fail "the client"
wait $server || fail "the server"

# finding KIND RUN: is one of this kind told?
finding() { "$BACKSTEP" cluster check "$2" --json >out 2>err || true; "$PYTHON" -c '
import json, sys
sys.exit(sys.argv[1] not in [f["kind"] for f in json.load(open("out"))["findings"]])' "$1"; }

expect 0 "$BACKSTEP" cluster gather server client -o run
expect 0 "$BACKSTEP" cluster info run --json
[ "$(field hosts.0.name <out) $(field hosts.1.name <out)" = "X X.2" ] || fail "names of hosts: $(cat out)"
[ "$(field messages <out)" -ge 40 ] || fail "messages: $(cat out)"
finding same-name run || fail "two hosts of one name"
expect 0 "$BACKSTEP" cluster check run
rm run/hosts/X/process-1.log
finding file run || fail "a file that is missing"
expect 0 "$BACKSTEP" cluster ls run
inode=$(stat -c %i run/hosts/X.2/process-1.log)
expect 0 "$BACKSTEP" cluster gather server client -o run
[ "$(stat -c %i run/hosts/X.2/process-1.log)" = "$inode" ] || fail "what was there was copied again"
expect 0 "$BACKSTEP" cluster check run
# The same recording twice.
cp -r server again
expect 0 "$BACKSTEP" cluster gather server again client -o twice
finding twice twice || fail "the same recording twice"
expect 0 "$BACKSTEP" cluster ls twice
# A log without its end, and one that is damaged: what is before that counts.
size=$(stat -c %s run/hosts/X/process-1.log)
truncate -s $((size * 2 / 3)) run/hosts/X/process-1.log
finding file run || fail "a file that is shorter"
finding damaged run || finding cut-off run || fail "a log that is cut off"
expect 0 "$BACKSTEP" cluster ls run --messages
dd if=/dev/urandom of=run/hosts/X/process-1.log bs=1000 seek=20 count=3 conv=notrunc status=none
finding damaged run || fail "a damaged log"
expect 0 "$BACKSTEP" cluster ls run --messages
expect 1 "$BACKSTEP" cluster check run
# No run, and a strange one.
expect 2 "$BACKSTEP" cluster gather server
mkdir other && touch other/file
expect 1 "$BACKSTEP" cluster gather server -o other && says 'no run'
expect 1 "$BACKSTEP" cluster ls other && says 'neither a run'
echo '{"version": 1, "hosts": [{"name": "../../etc"}]}' >other/run.json
"$BACKSTEP" cluster ls other 2>err && fail "a host with a path for a name"
says "no name of a host"
# From another machine, which rsync believes to be one.
if have rsync; then
  printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >rsh && chmod +x rsh
  expect 0 "$BACKSTEP" cluster gather --rsh ./rsh "far:$T/server" "far:$T/client" -o fetched
  expect 0 "$BACKSTEP" cluster info fetched --json
  [ "$(field messages <out)" -ge 40 ] || fail "messages of what was fetched"
fi
ok
