#!/usr/bin/env bash
# 'sql --export' to CSV: all tables, some, or a query; what other programs read from it is what 'sql' answers. What exists is not
# overwritten unasked, and an export that fails or is interrupted leaves nothing.
source "$(dirname "$0")/lib.bash"
need sqlite3
gcc -g -O1 -o text "$SRC/tests/cases/export_text.c"
expect 3 "$BACKSTEP" record -q -o run sh -c './text; exit 3'
sql() { "$BACKSTEP" sql "$@"; }

# All of them.
expect 0 sql --export all run
for table in processes threads events syscalls signals output checkpoints bookmarks modules functions lines; do
  grep -q "^$table " out || fail "no word about $table: $(cat out)"
  [ -s all/$table.csv ] || fail "no file for $table"
done
[ ! -e all/calls.csv ] || fail "calls without a function"
"$PYTHON" "$SRC/tests/cases/export_agrees.py" "$BACKSTEP" run all || fail "files that differ from answers"
# SQLite reads them as well.
sqlite3 :memory: '.import --csv all/output.csv t' 'SELECT count(*) FROM t' "SELECT text FROM t WHERE text LIKE '%yes%'" >imported
printf '14\nsay "yes"\n' | cmp -s - imported || fail "SQLite reads something else: $(cat imported)"
# … and NULL is not the same as an empty text.
expect 0 sql --export one.csv run "SELECT NULL AS a, '' AS b, x'00ff' AS c, 0.1 AS d, 'x' AS a"
[ "$(cat one.csv)" = $'a,b,c,d,a_2\n,"",00ff,0.1,x' ] || fail "$(cat one.csv)"

# Some tables, a query of what needs a replay, under a name; JSON.
expect 0 sql --export some syscalls,signals run
[ "$(ls some | tr '\n' ' ')" = "signals.csv syscalls.csv " ] || fail "$(ls some)"
expect 0 sql --json --export some --table steps run "SELECT ret, enter FROM calls WHERE function = 'step' AND process > 0 ORDER BY enter"
[ "$(field 0.table <out) $(field 0.rows <out)" = "steps 12" ] || fail "$(cat out)"
[ "$(cut -d, -f1 some/steps.csv | tail -n 1)" = 66 ] || fail "$(cat some/steps.csv)"
expect 0 sql --export threads.csv threads run
[ "$(head -n 1 threads.csv)" = "process,thread,tid,name,born,began,ended,turns,ticks" ] || fail "$(cat threads.csv)"

# Mistakes; what is there stays.
cp threads.csv before.csv
expect 1 sql --export threads.csv threads run
says 'threads.csv exists already; --replace'
expect 1 sql --export all run
says 'exists already'
expect 0 sql --export threads.csv --replace threads run
cmp -s threads.csv before.csv || fail "--replace"
expect 2 sql --export calls.csv calls run
says 'cannot be exported as a whole; export a query'
expect 2 sql --export x.csv run
says 'one file has room for one table'
expect 2 sql --export x.csv syscals run
says "there is no table 'syscals'; did you mean 'syscalls'"
expect 2 sql --export x.csv run "SELECT 1; SELECT 2"
says 'only one query'
expect 2 sql --export x.csv run "CREATE TEMP TABLE t AS SELECT 1"
says 'no answer'
expect 2 sql --export x.csv --csv threads run
expect 2 sql --export x.csv --schema s threads run
expect 2 sql --replace run "SELECT 1"
expect 1 sql --export nowhere/x.csv threads run
says 'cannot write'
expect 2 sql --export made/here run "SELECT nonsense FROM threads"
[ ! -e made/here ] || [ -z "$(ls -A made/here)" ] || fail "an export that fails leaves files"
[ -z "$(find . -name '*.new-*')" ] || fail "temporary files stay: $(find . -name '*.new-*')"
[ ! -e x.csv ] || fail "a mistake makes a file"

# Ctrl-C.
"$BACKSTEP" sql --export long.csv run "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n" >out 2>err &
exporting=$!
begun() { compgen -G '.long.csv.new-*' >/dev/null; }
comes begun || fail "nothing is exported"
kill -INT $exporting
got=0
wait $exporting || got=$?
[ $got = 130 ] || fail "Ctrl-C ends it with $got"
[ -z "$(find . -name '*long.csv*')" ] || fail "Ctrl-C leaves files"
ok
