#!/usr/bin/env bash
# nginx with two workers, curl and wrk, on the loopback: reload, then a graceful end.
source "$(dirname "$0")/../cases/lib.bash"
have nginx && have wrk && have curl || skip "no nginx, wrk or curl here (apt-get install nginx-light wrk curl)"
cat >script <<'SH'
mkdir www
head -c 300000 /dev/zero | tr '\0' x >www/big
echo hello >www/index.html
port=$("$1" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >conf <<END
daemon $2; worker_processes 2; pid $PWD/pid; error_log $PWD/errors; user $(id -un) $(id -gn);
events { worker_connections 64; }
http {
  access_log $PWD/access; client_body_temp_path $PWD/1; proxy_temp_path $PWD/2; fastcgi_temp_path $PWD/3;
  uwsgi_temp_path $PWD/4; scgi_temp_path $PWD/5;
  server { listen 127.0.0.1:$port; root $PWD/www; }
}
END
if [ "$2" = on ]; then nginx -c "$PWD/conf" -p "$PWD"; else nginx -c "$PWD/conf" -p "$PWD" & fi
for ((i = 0; i < 100; i++)); do curl -s "http://127.0.0.1:$port/" && break; sleep 0.1; done
curl -s "http://127.0.0.1:$port/big" | wc -c
wrk -t2 -c4 -d1s "http://127.0.0.1:$port/" | grep 'requests in'
pid=$(cat pid)
kill -HUP "$pid"
sleep 0.3
curl -s "http://127.0.0.1:$port/"
kill -QUIT "$pid"
while kill -0 "$pid" 2>/dev/null && [ "$(awk '{print $3}' "/proc/$pid/stat")" != Z ]; do sleep 0.1; done
wait
SH
for daemon in off on; do
  record_tree "nginx-$daemon" bash "$T/script" "$PYTHON" $daemon
  [ "$(grep -c hello "nginx-$daemon.out")" = 2 ] || fail "nginx does not answer"
done
ok
