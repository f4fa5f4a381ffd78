#!/usr/bin/env bash
# curl against a local server, both recorded, in one tree.
source "$(dirname "$0")/lib.bash"
need curl
export LIMIT=$PATIENCE
cat >server.py <<'PY'
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * 300000 if self.path == "/big" else b"hello from " + self.path.encode() + b"\n"
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d bytes\n" % len(body))
    def log_message(self, *unused):
        pass
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    with open("port", "w") as f:
        f.write(f"{server.server_address[1]}\n")
    server.serve_forever()
PY
cat >script <<'SH'
"$1" "$2" &
until [ -s port ]; do sleep 0.05; done
url=http://127.0.0.1:$(cat port)
curl -sS "$url/one" "$url/two"
curl -sS "$url/big" | wc -c
curl -sS --data-binary @"$2" "$url/post"
curl -sS -o /dev/null -w '%{http_code}\n' "$url/missing"
curl -sS --parallel "$url/big" "$url/big" "$url/big" 2>/dev/null | wc -c
curl -s http://127.0.0.1:1/ || echo "status $?"
kill $!
wait $!
SH
OUTPUT=same record_tree curl bash "$T/script" "$PYTHON" "$T/server.py"
ok
