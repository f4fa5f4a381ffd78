#!/usr/bin/env bash
# The debug information of a stripped program comes from a debuginfod server, if the user has named one; later from what was
# fetched, without the server. Nothing is asked of anybody otherwise, and a file that is not this program's is not believed.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
need objcopy strip readelf
compile served <<'C'
int twice(int n) {
  int result = 2 * n;
  return result;
}
int main(void) {
  return twice(20) + twice(1);
}
C
id=$(readelf -n served | sed -n 's/.*Build ID: //p')
[ -n "$id" ] || fail "the compiler gives no build ids"
mkdir -p "site/buildid/$id"
objcopy --only-keep-debug served "site/buildid/$id/debuginfo"
strip served
expect 42 "$BACKSTEP" record -q -o "$T/rec" ./served

cat >server.py <<'PY'
import http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        print(self.path, file=sys.stderr, flush=True)
    def __init__(self, *words):
        super().__init__(*words, directory="site")
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
"$PYTHON" -B server.py >port 2>asked &
server=$!
trap 'ended=$?; [ -z "$server" ] || kill "$server"; cleanup $ended' EXIT
comes test -s port || fail "the server does not listen"
export XDG_CACHE_HOME=$T/cache HOME=$T
mkdir "$T/cache"
log=("$BACKSTEP" log 'served.c:3' '{n} {result}' "$T/rec")

expect 2 "${log[@]}"
[ ! -s asked ] || fail "a server was asked although the user has named none: $(cat asked)"

export DEBUGINFOD_URLS=http://127.0.0.1:$(cat port)
expect 0 "${log[@]}"
seen '20 40$' <"$T/out" && seen '1 2$' <"$T/out" || fail "not the values: $(cat "$T/out")"
seen 'looking for debug information of .*served' <"$T/err" || fail "not told: $(cat "$T/err")"
[ "$(grep -c "$id" asked)" = 1 ] || fail "not asked once: $(cat asked)"

unset DEBUGINFOD_URLS
kill "$server"
wait "$server" || true
server=
expect 0 "${log[@]}"
seen '20 40$' <"$T/out" || fail "what was fetched is not used: $(cat "$T/err")"

# What is in its place is another program's.
compile other <<'C'
int main(void) { return 0; }
C
folder=$(echo "$T/cache/debuginfod_client/$id")
cp --remove-destination other "$folder/debuginfo"
expect 2 "${log[@]}"
ok
