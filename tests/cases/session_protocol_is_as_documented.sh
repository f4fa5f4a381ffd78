#!/usr/bin/env bash
# Every example of docs/session-protocol.md is sent to a session, and what comes back is what the document says; messages
# that no client should send are answered with an error.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
gcc -g -o inventory "$SRC/examples/demo/inventory.c"
"$BACKSTEP" record -q -o run ./inventory "$SRC/examples/demo/orders.txt" >/dev/null && fail "it did not crash"
"$PYTHON" "$SRC/tests/cases/protocol.py" "$BACKSTEP" "$SRC/docs/session-protocol.md" run
# On a socket that others cannot open.
"$BACKSTEP" session --listen socket run 2>listening &
server=$!
comes test -S socket || fail "there is no socket"
[ "$(stat -c %a socket)" = 600 ] || fail "others can reach the socket: $(stat -c %a socket)"
"$PYTHON" - <<'PY' || fail "the socket does not answer"
import json, socket
s = socket.socket(socket.AF_UNIX)
s.connect("socket")
f = s.makefile("rw")
f.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"specs": ["call enter"]}}) + "\n")
f.flush()
while True:
    answer = json.loads(f.readline())
    if "result" in answer:
        assert answer["result"][0]["count"] > 0, answer
        break
PY
kill $server
wait $server || true
[ ! -e socket ] || fail "the socket stays behind"
ok
