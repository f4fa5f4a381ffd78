#!/usr/bin/env bash
# nginx in front of two backends, in two network namespaces: requests of a client go to both in turns, one backend dies and the other
# answers for it. A request's way can be followed through nginx to the backend and back.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/cases/cluster.bash"
source "$SRC/tests/soak/cluster_real.bash"
PATH=$PATH:/usr/sbin
have nginx && have curl || skip "no nginx or curl here (apt-get install nginx-light curl)"
two_hosts
chmod 755 "$T"
mkdir one two
echo 'from one' >one/name
echo 'from two' >two/name
cat >nginx.conf <<N
daemon off; worker_processes 2; error_log $T/error.log; pid $T/pid;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path $T/body; proxy_temp_path $T/proxy; fastcgi_temp_path $T/f; uwsgi_temp_path $T/u; scgi_temp_path $T/s;
  upstream both { server 10.77.0.2:8001; server 10.77.0.2:8002; }
  server { listen 10.77.0.1:8000; location / { proxy_pass http://both; proxy_next_upstream error timeout; } }
}
N
cat >client.sh <<'SH'
get() { curl -s http://10.77.0.1:8000/name; }
until curl -sf http://10.77.0.2:8001/name && curl -sf http://10.77.0.2:8002/name && get; do sleep 0.2; done >/dev/null 2>&1
for i in 1 2 3 4; do get; done | sort | uniq -c
curl -s http://10.77.0.2:8002/quit >/dev/null
for i in 1 2 3; do get; done
SH
cat >backend.py <<'PY'
import http.server, os, sys
os.chdir(sys.argv[2])
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        if self.path == "/quit": os._exit(0)
        super().do_GET()
http.server.ThreadingHTTPServer(("10.77.0.2", int(sys.argv[1])), Handler).serve_forever()
PY
{
  host nginx "ip netns exec $A" "exec nginx -c $T/nginx.conf" daemon
  host one "ip netns exec $B" "exec $PYTHON backend.py 8001 one" daemon
  host two "ip netns exec $B" "exec $PYTHON backend.py 8002 two" daemon
  host client "ip netns exec $A" "exec bash client.sh"
} | record_hosts web
grep -qE '^ +2 from one$' web.out && grep -qE '^ +2 from two$' web.out && [ "$(grep -c '^from one$' web.out)" = 3 ] ||
  { cat web.out web.err error.log >&2; fail "the answers"; }
holds web
[ "$(sql web "SELECT count(*) FROM messages WHERE NOT checked AND bytes > 0")" = 0 ] || fail "bytes that were matched by order alone"
# Every request that nginx got from the client was sent on to a backend behind it, before its answer.
[ "$(sql web "SELECT count(*) FROM messages q WHERE q.sender LIKE 'client/%' AND q.receiver LIKE 'nginx/%' AND NOT EXISTS
  (SELECT 1 FROM messages p WHERE p.sender = q.receiver AND p.receiver NOT LIKE 'client/%' AND p.receiver NOT LIKE 'nginx/%' AND p.sent_event > q.received_event)")" = 0 ] ||
  fail "a request that was not sent on"
# The way of the last answer that the client got: it came from the backend that was left, through nginx.
last=$(cluster sql web --csv "SELECT receiver, received_at FROM messages WHERE sender LIKE 'nginx/%' AND receiver LIKE 'client/%' ORDER BY received_time DESC LIMIT 1" | tail -n 1 | tr -d '"')
expect 0 cluster path web "${last%,*}" "${last#*,}" --quick --depth 5 --json
"$PYTHON" - <<'PY' || { cat out >&2; fail "the way of an answer"; }
import json
path = json.load(open("out"))
hosts = [h["from"].split("/")[0] for h in path["hops"]]
assert "nginx" in hosts and "one" in hosts, hosts
PY
ok
