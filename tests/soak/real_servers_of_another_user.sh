#!/usr/bin/env bash
# Servers that root starts and that become another user, as in containers: redis through setpriv, nginx with `user`,
# PostgreSQL through su. The recordings lie where those users cannot go; every process is recorded.
source "$(dirname "$0")/../cases/lib.bash"
[ "$(id -u)" = 0 ] || skip "needs root to become somebody else"
need setpriv
home=$(mktemp -d "${TMPDIR:-/tmp}/backstep-test.XXXXXX")
trap 'cleanup; rm -rf "$home"' EXIT
chmod 755 "$home"
some=no

# ended NAME: every log has its end, and no process is missing.
ended() {
  [ "$("$BACKSTEP" ps --json "$1" | "$PYTHON" -c 'import json, sys; print(sum(p["end"] is None for p in json.load(sys.stdin)))')" = 0 ] ||
    { "$BACKSTEP" ps "$1" >&2; fail "$1: not all processes were recorded to their end"; }
  ! grep -q 'not recorded' "$1"/*.json || fail "$1: $(grep -h 'not recorded' "$1"/*.json | head -n 1)"
}

if have redis-server && have redis-cli; then
  some=yes
  mkdir -m 777 "$home/redis"
  cat >redis.sh <<'SH'
setpriv --reuid=65534 --regid=65534 --clear-groups redis-server --port 0 --unixsocket "$1/s" --unixsocketperm 777 --save '' --dir "$1" >"$1/log" &
for ((i = 0; i < 100; i++)); do [ "$(redis-cli -s "$1/s" ping 2>/dev/null)" = PONG ] && break; sleep 0.1; done
redis-cli -s "$1/s" set key value
redis-cli -s "$1/s" bgsave
for ((i = 0; i < 50; i++)); do redis-cli -s "$1/s" info persistence | grep -q 'rdb_bgsave_in_progress:0' && break; sleep 0.1; done
redis-cli -s "$1/s" get key
redis-cli -s "$1/s" shutdown nosave
wait $!
SH
  record_tree redis bash "$T/redis.sh" "$home/redis"
  grep -q '^value' redis.out || fail "redis does not answer"
  ended redis
fi

if have nginx && have curl; then
  some=yes
  mkdir -p "$home/nginx/www"
  echo hello >"$home/nginx/www/index.html"
  cat >nginx.sh <<'SH'
port=$("$2" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$1/conf" <<END
daemon off; worker_processes 3; pid $1/pid; error_log $1/errors; user nobody $(id -gn nobody);
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path $1/1; proxy_temp_path $1/2; fastcgi_temp_path $1/3;
  uwsgi_temp_path $1/4; scgi_temp_path $1/5; limit_req_zone \$binary_remote_addr zone=all:1m rate=10000r/s;
  server { listen 127.0.0.1:$port; root $1/www; location / { limit_req zone=all burst=1000 nodelay; } }
}
END
nginx -c "$1/conf" -p "$1" &
for ((i = 0; i < 100; i++)); do curl -s "http://127.0.0.1:$port/" >/dev/null && break; sleep 0.1; done
for ((i = 0; i < 50; i++)); do curl -s "http://127.0.0.1:$port/"; done | sort | uniq -c
kill -HUP $!
sleep 0.3
curl -s "http://127.0.0.1:$port/"
kill -QUIT $!
wait
SH
  record_tree nginx bash "$T/nginx.sh" "$home/nginx" "$PYTHON"
  grep -q '50 hello' nginx.out || fail "nginx does not answer"
  ended nginx
fi

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
if [ -x "$bin/initdb" ] && id postgres >/dev/null 2>&1 && have su; then
  some=yes
  mkdir "$home/postgres"
  chown postgres "$home/postgres"
  cat >"$home/postgres.sh" <<'SH'
"$2"/initdb -D "$1/data" -N -A trust -U me >"$1/init.log" 2>&1 || cat "$1/init.log"
"$2"/pg_ctl -D "$1/data" -o "-k $1 -c listen_addresses= -c fsync=off" -l "$1/log" -w start >"$1/ctl.log" 2>&1 || cat "$1/log"
"$2"/psql -h "$1" -U me -At -c 'create table t (a int); insert into t select generate_series(1, 1000)' postgres
"$2"/psql -h "$1" -U me -At -c 'select sum(a) from t' postgres
"$2"/pg_ctl -D "$1/data" -m fast stop
SH
  LIMIT=250 NATIVE=no record_tree postgres su postgres -s /bin/bash -c "bash $home/postgres.sh $home/postgres $bin"
  grep -qx 500500 postgres.out || { cat postgres.out >&2; fail "the sum is not there"; }
  ended postgres
fi
[ $some = yes ] || skip "no redis, nginx or PostgreSQL here"
ok
