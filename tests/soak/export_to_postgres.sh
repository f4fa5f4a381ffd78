#!/usr/bin/env bash
# 'sql --export postgresql://…' with a real server, which this case makes for itself: on a unix socket in its folder, nothing else.
source "$(dirname "$0")/../cases/lib.bash"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -x "$bin/initdb" ] || skip "no PostgreSQL here (apt-get install postgresql)"
# It refuses to run as root: then all of this case runs as its own user.
if [ "$(id -u)" = 0 ]; then
  have setpriv && id postgres >/dev/null 2>&1 || skip "PostgreSQL does not run as root"
  chmod 755 "$T"
  mkdir -m 777 user
  cp -r "$SRC/tests" "$BACKSTEP" user
  exec setpriv --reuid=postgres --regid=postgres --clear-groups env TMPDIR="$T/user" HOME="$T/user" \
    BACKSTEP="$T/user/${BACKSTEP##*/}" BUILD="$T/user" SRC="$T/user" bash "$T/user/tests/soak/export_to_postgres.sh"
fi
PATH=$bin:$PATH
stop_server() {
  local ended=$?
  pg_ctl -D "$T/data" -m immediate stop >/dev/null 2>&1 || true
  cleanup $ended
}
trap stop_server EXIT
initdb -D data -N -A trust -U me -E UTF8 --locale=C >init.log 2>&1 || { cat init.log >&2; fail "initdb"; }
# Socket paths are short.
socket=$(mktemp -d /tmp/bs-pg.XXXXXX)
trap 'rm -rf "$socket"; stop_server' EXIT
pg_ctl -D data -o "-k $socket -c listen_addresses= -c fsync=off" -l log -w start >ctl.log 2>&1 || { cat ctl.log log >&2; fail "no server"; }
address="postgresql://me@/postgres?host=$socket"
ask() { psql -X -At -q -d "$address" -c "$1"; }
sql() { "$BACKSTEP" sql "$@"; }
is() { [ "$(ask "$1")" = "$2" ] || fail "$1: $(ask "$1")"; }

gcc -g -O1 -o text "$SRC/tests/cases/export_text.c"
expect 3 "$BACKSTEP" record -q -o run sh -c './text; exit 3'

say "all tables, as 'sql' answers them"
expect 0 sql --export "$address" run
says 'texts are not valid UTF-8 or have a byte 0'
mkdir back
for table in $(ask "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"); do
  psql -X -q -d "$address" -c "COPY $table TO STDOUT (FORMAT csv, HEADER)" >back/$table.csv
done
"$PYTHON" "$SRC/tests/cases/export_agrees.py" "$BACKSTEP" run back --from-postgres || fail "the server has something else"
is "SELECT data_type FROM information_schema.columns WHERE table_name = 'syscalls' AND column_name = 'tick'" bigint
is "SELECT data_type FROM information_schema.columns WHERE table_name = 'syscalls' AND column_name = 'time'" "timestamp with time zone"
is "SELECT count(*) FROM syscalls WHERE abs(extract(epoch FROM time) * 1e9 - time_ns) > 1000" 0
is "SELECT obj_description('signals'::regclass)" "signals where they were delivered to a handler, and those that ended a process"
is "SELECT col_description('syscalls'::regclass, attnum) FROM pg_attribute WHERE attrelid = 'syscalls'::regclass AND attname = 'error'" "ENOENT, …; NULL: it did not fail"
is "SELECT count(*) FROM pg_indexes WHERE tablename = 'syscalls' AND indexdef LIKE '%(process, tick)%'" 1
is "SELECT count(*) FROM output WHERE text = '\\.'" 1

say "what exists is not touched, or replaced"
rows=$(ask "SELECT count(*) FROM events")
expect 1 sql --export "$address" run
says 'nothing of it stays'
says '42P07|already exists'
says '--replace'
ask "DELETE FROM events"
expect 0 sql --export "$address" --replace run
is "SELECT count(*) FROM events" "$rows"

say "a query; types by what it answers"
expect 0 sql --export "$address" --schema 'other "one"' --table mixed run \
  "SELECT 1 AS n, 0.5 AS x UNION ALL SELECT 2, 3"
is "SELECT string_agg(data_type, ',' ORDER BY column_name) FROM information_schema.columns WHERE table_name = 'mixed'" "bigint,double precision"
expect 0 sql --export "$address" --schema 'other "one"' --table kinds run \
  "SELECT x'00ff' AS bytes, 'a' AS mixed, NULL AS none, -9223372036854775808 AS lowest, CAST(text AS BLOB) AS text FROM output WHERE text LIKE 'zero%'
   UNION ALL SELECT NULL, 1, NULL, 9223372036854775807, x'' "
is "SELECT string_agg(data_type, ',' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = 'kinds'" "bytea,text,text,bigint,bytea"
is "SELECT encode(bytes, 'hex'), lowest, encode(text, 'escape') FROM \"other \"\"one\"\"\".kinds WHERE mixed = 'a'" '00ff|-9223372036854775808|zero\000here'
expect 0 sql --export "$address" --table steps run "SELECT process, enter AS tick, ret FROM calls WHERE function = 'step' AND process > 0"
is "SELECT count(*), max(ret) FROM steps" "12|66"
is "SELECT count(*) FROM pg_indexes WHERE tablename = 'steps'" 1

say "a run of two hosts"
"$BACKSTEP" record -q --host A -o a sh -c 'echo one; echo two' 2>/dev/null | "$BACKSTEP" record -q --host B -o b sh -c "cat; exec ./text" >/dev/null || true
expect 0 "$BACKSTEP" cluster gather a b -o both
expect 0 "$BACKSTEP" cluster sql --export "$address" --schema two both
is "SELECT count(*) > 0 FROM two.messages WHERE sender LIKE 'A/%'" t
is "SELECT string_agg(name, ',' ORDER BY name) FROM two.hosts" A,B
is "SELECT count(*) FROM two.syscalls s LEFT JOIN two.processes p ON p.name = s.process WHERE p.name IS NULL" 0
is "SELECT count(*) = (SELECT count(*) FROM two.messages) FROM two.messages m JOIN two.syscalls s ON s.process = m.sender AND s.event = m.sent_event" t
expect 0 "$BACKSTEP" cluster sql --export "$address" --table said both "SELECT sender, sum(bytes) AS bytes FROM messages GROUP BY 1"
is "SELECT data_type FROM information_schema.columns WHERE table_name = 'said' AND column_name = 'sender'" text

say "no server, no database, no rights"
expect 1 sql --export "postgresql://me@/postgres?host=$T" run
says 'export to PostgreSQL has failed'
says 'No such file'
expect 1 sql --export "postgresql://me@/nothing?host=$socket" run
says 'does not exist'
ask "CREATE ROLE guest LOGIN"
ask "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
expect 1 sql --export "postgresql://guest@/postgres?host=$socket" threads run
says 'permission denied'
says 'may not do that'
PATH=/nowhere expect 1 "$BACKSTEP" sql --export "$address" threads run
says 'postgresql-client'

say "what fails in the middle leaves nothing"
expect 2 sql --export "$address" --table half --replace run "SELECT nonsense FROM threads"
is "SELECT count(*) FROM pg_tables WHERE tablename = 'half'" 0
"$BACKSTEP" sql --export "$address" --table half run \
  "WITH RECURSIVE n(i) AS (SELECT tick FROM events UNION ALL SELECT i + 1 FROM n) SELECT i, e.tick FROM n JOIN events e" >out 2>err &
exporting=$!
client() { psql_pid=$(pgrep -P $exporting -x psql); }
comes client || fail "no psql"
kill -INT $exporting
got=0
wait $exporting || got=$?
[ $got = 130 ] || fail "Ctrl-C ends it with $got"
comes has_ended "$psql_pid" || fail "psql goes on"
is "SELECT count(*) FROM pg_tables WHERE tablename = 'half'" 0
# Somebody ends the server's side.
ask "CREATE TABLE mark ()"
"$BACKSTEP" sql --export "$address" --table half run \
  "SELECT e.tick, f.tick AS other FROM events e JOIN events f JOIN events g JOIN events h" >out 2>err &
exporting=$!
copies() { [ "$(ask "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY %half%' AND pid <> pg_backend_pid()")" = 1 ]; }
comes copies || fail "no COPY"
ask "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY %half%' AND pid <> pg_backend_pid()" >/dev/null
got=0
wait $exporting || got=$?
[ $got = 1 ] || fail "a lost connection ends it with $got"
says 'nothing of it stays'
is "SELECT count(*) FROM pg_tables WHERE tablename = 'half'" 0
ok
