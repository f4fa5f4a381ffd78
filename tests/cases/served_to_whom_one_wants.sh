#!/usr/bin/env bash
# `replay --serve` at a unix socket is for its user alone; an address that other machines can reach gets a warning, those of this
# machine do not.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
"$BACKSTEP" record -q -o rec "$P/hello" >/dev/null 2>&1
serve() { # ADDRESS: in the background; its pid in $server, what it says in $T/said
  : >said
  "$BACKSTEP" replay --serve "$1" rec >said 2>&1 </dev/null &
  server=$!
  comes seen 'serving' <said || fail "it does not serve at $1: $(cat said)"
}
stop() { kill "$server" 2>/dev/null && { wait "$server" || true; }; }
serve ./socket
[ "$(stat -c %a socket)" = 600 ] || fail "others can open the socket: $(stat -c %a socket)"
seen warning <said && fail "a warning about a unix socket: $(cat said)"
"$PYTHON" - <<'PY' || fail "nobody answers at the socket"
import socket
s = socket.socket(socket.AF_UNIX)
s.connect("socket")
s.sendall(b"+$qSupported#37")
answer = b""
while b"PacketSize" not in answer:  # the acknowledgement may come alone
    got = s.recv(4096)
    assert got, answer
    answer += got
PY
# A second one does not take it away.
expect 1 "$BACKSTEP" replay --serve ./socket rec
says 'there already'
stop
[ ! -e socket ] || fail "the socket stays behind"
# One that was left by a server which was killed is used again.
serve unix:socket
kill -KILL "$server"
wait "$server" || true
[ -S socket ] || fail "no socket was left behind"
serve unix:socket
stop
for here in 0 localhost:0 127.0.0.2:0; do
  serve $here
  seen warning <said && fail "a warning about $here: $(cat said)"
  stop
done
serve 0.0.0.0:0
seen 'warning: whoever can reach' <said || fail "no warning: $(cat said)"
stop
touch file
expect 1 "$BACKSTEP" replay --serve ./file rec
says 'there already'
[ -e file ] || fail "a file was removed"
ok
