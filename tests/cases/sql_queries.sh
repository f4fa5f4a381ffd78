#!/usr/bin/env bash
# 'sql' as people and scripts use it: forms of answers, mistakes, what it must not do, queries that end early, Ctrl-C, a closed
# pipe, a damaged log, the shell at a terminal, the explanation of a query.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >long.c <<'C'
#include <stdio.h>
#include <unistd.h>
volatile long total, spin; // on one page, so that no part of the run is known to leave it alone
__attribute__((noinline)) long step(long n) { total += n; return total; }
int main(void) {
  puts("a,\"b\"\033[31m red\tend");
  fflush(stdout);
  step(1);
  for (volatile long i = 0; i < 2000000000; i++) if ((i & 0xffffff) == 0) spin = i;
  step(2);
  return 0;
}
C
gcc -g -O1 -o long long.c
expect 0 "$BACKSTEP" record -q -o run ./long
ticks=$(ticks_of run)
mkdir empty
cd empty || fail "no folder"
# ask QUERY...: of the recording, in an empty folder.
ask() { expect 0 "$BACKSTEP" sql ../run "$@"; }
is() { [ "$(cat "$T/out")" = "$1" ] || { cat "$T/out" >&2; fail "not '$1'"; }; }

# Forms.
ask "SELECT 1 AS one, NULL AS none, 'x' AS text, 0.5 AS half, x'00ff' AS bytes"
is $'one  none  text  half  bytes\n  1        x      0.5  x\'00ff\''
ask --json "SELECT 1 AS one, NULL AS none, 'x' AS one, x'00ff' AS bytes"
is '{"one":1,"none":null,"one_2":"x","bytes":"00ff"}'
ask --csv "SELECT text, fd FROM output"
is $'text,fd\n"a,""b""\033[31m red\tend",1'
ask "SELECT text FROM output" # what the program wrote does not reach the terminal
is $'text\na,"b"\\x1b[31m red\\tend'
ask "SELECT pc > 0 AS yes, pc FROM syscalls WHERE name = 'write'"
grep -q '^ *1  0x[0-9a-f]*$' "$T/out" || fail "an address is not shown as one: $(cat "$T/out")"
expect 0 "$BACKSTEP" sql "SELECT 6 * 7 AS n" ../run # the other way round
is $' n\n42'
printf 'SELECT 1 AS a;\n.mode json\nSELECT 2\nAS b; SELECT 3 AS c' >queries
expect 0 "$BACKSTEP" sql ../run <queries
is $'a\n1\n{"b":2}\n{"c":3}'
rm queries
expect 0 "$BACKSTEP" sql ../run .tables
[ "$(wc -l <"$T/out")" = 20 ] || fail "these are not all tables: $(cat "$T/out")"
expect 0 "$BACKSTEP" sql ../run '.schema calls'
grep -q '^  function  *has to be said' "$T/out" || fail "the schema of calls"
for table in $("$BACKSTEP" sql ../run .tables | cut -d ' ' -f 1); do
  grep -q "^### $table" "$SRC/docs/sql.md" || fail "docs/sql.md does not have the table $table"
  for column in $("$BACKSTEP" sql ../run ".schema $table" | sed -n 's/^  \([a-z0-9_]*\) .*/\1/p'); do
    sed -n "/^### $table/,/^##/p" "$SRC/docs/sql.md" | seen "\`$column\`" || fail "docs/sql.md lacks $table.$column"
  done
done

# Mistakes are sentences.
wrong() {
  expect 2 "$BACKSTEP" sql ../run "$2"
  says "$1"
}
wrong 'there is no table .syscals.; did you mean .syscalls' 'SELECT 1 FROM syscals'
wrong 'there is no column .nme.; did you mean .name' 'SELECT nme FROM syscalls'
wrong 'syntax error' 'SELEC 1 FROM x'
wrong 'needs to know what to look for: say what function is' 'SELECT * FROM calls'
wrong 'say what name or addr or function or tick is' 'SELECT * FROM stores WHERE newval > 5'
wrong 'say what file and line is' "SELECT * FROM executed WHERE line = 5"
wrong 'before the other' 'SELECT 1 FROM calls a JOIN calls b ON a.function = b.function'
wrong 'there is no variable .nothing.' "SELECT value('nothing', 'end')"
wrong "value\('expr', at\)" "SELECT value('total')"
wrong 'is not something that can be looked for' "SELECT * FROM stores WHERE name = 'total if total > 1'"
wrong 'is not something that can be looked for' "SELECT * FROM stores WHERE name = 'total then write total'"
wrong 'there is no command' '.nothing'
expect 0 "$BACKSTEP" sql ../run "SELECT * FROM calls WHERE function = 'stepp'"
says "there is no function 'stepp'.*did you mean step"
expect 2 "$BACKSTEP" sql ../run 'SELECT 1' more
expect 2 "$BACKSTEP" sql --json --csv ../run 'SELECT 1'
expect 1 "$BACKSTEP" sql nowhere

# Nothing outside is read or written, whatever is asked.
echo secret >secret
for query in "ATTACH 'made' AS x" "VACUUM INTO 'made'" "SELECT load_extension('made')" "PRAGMA temp_store_directory = '.'" \
  "CREATE TABLE t(a)" "CREATE VIRTUAL TABLE t USING fts5(a)" "PRAGMA journal_mode = DELETE" "DELETE FROM syscalls" \
  "UPDATE sqlite_schema SET name = 'x'" "SELECT readfile('secret')" "SELECT writefile('made', 'x')" "DETACH main"; do
  expect 2 "$BACKSTEP" sql ../run "$query"
done
rm secret
ask "CREATE TEMP TABLE t AS SELECT name FROM syscalls ORDER BY ret; CREATE TEMP VIEW v AS SELECT count(*) AS n FROM t;
     SELECT n > 10 AS many FROM v"
is $'many\n   1'
[ -z "$(ls -A)" ] || fail "there are files now: $(ls -A)"

# What has enough ends early: the progress of the replay says so.
"$PYTHON" - "$BACKSTEP" ../run <<'PY' || fail "queries that end early"
import json, subprocess, sys

def ask(query, cancel=False):
    session = subprocess.Popen([sys.argv[1], "session", sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    put = lambda message: (session.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"), session.stdin.flush())
    put({"id": 1, "method": "sql", "params": {"query": query}})
    furthest = 0
    while True:
        message = json.loads(session.stdout.readline())
        if message.get("method") == "progress":
            furthest = max(furthest, message["params"]["done"])
            if cancel:
                put({"method": "cancel", "params": {"id": 1}})
                cancel = False
        elif message.get("id") == 1:
            break
    session.stdin.close()
    session.wait()
    return message, furthest

query = "SELECT newval FROM stores WHERE name = 'total'"
message, furthest = ask(query)
assert message["result"]["rows"] == [[1], [3]] and furthest > 0.5, (message, furthest)
for early in query + " LIMIT 1", query + " ORDER BY tick LIMIT 1", f"SELECT EXISTS({query})":
    message, furthest = ask(early)
    assert message["result"]["rows"] == [[1]] and furthest < 0.5, (early, message, furthest)
message, furthest = ask(query, cancel=True)
assert message["error"]["code"] == -32001, message
PY

# Ctrl-C, and a closed pipe.
"$BACKSTEP" sql ../run "SELECT * FROM stores WHERE name = 'total'" >"$T/out" 2>"$T/err" &
asking=$!
comes pgrep -P $asking >/dev/null || fail "nothing replays"
kill -INT $asking
got=0
wait $asking || got=$?
[ $got = 130 ] || fail "Ctrl-C ends it with $got"
[ ! -s "$T/err" ] || fail "Ctrl-C: $(cat "$T/err")"
(set +o pipefail; "$BACKSTEP" sql ../run "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n" \
  2>"$T/err" | head -n 3 >"$T/out")
[ "$(tail -n 1 "$T/out")" = "     2" ] || [ "$(tail -n 1 "$T/out" | tr -d ' ')" = 2 ] || fail "a closed pipe: $(cat "$T/out")"
[ ! -s "$T/err" ] || fail "a closed pipe: $(cat "$T/err")"

# What would have to be done.
ask --explain "SELECT * FROM stores WHERE name = 'total' AND tick BETWEEN 1000 AND 2000"
grep -q '^stores  *1001 ticks of process #1 are replayed (0 % of it), in 1 window' "$T/out" || fail "$(cat "$T/out")"
ask --explain "SELECT * FROM syscalls s JOIN calls c ON c.enter > s.tick WHERE c.function = 'step'"
grep -q '^syscalls  *read from the log of 1 process, [0-9]* events; nothing is replayed' "$T/out" || fail "$(cat "$T/out")"
grep -q "^calls  *$ticks ticks of process #1 are replayed (100 % of it)" "$T/out" || fail "$(cat "$T/out")"

# The terminal.
mkdir "$T/state"
"$PYTHON" "$SRC/tests/cases/sql_shell.py" "$BACKSTEP" ../run "$T/state" || fail "the shell"

# Of a log that is cut off there is what is left of it, and the status says so.
copy_recording run cut
truncate -s "$(damage events "$(log_of run)" | awk '$1 == 20 {print $3 + 1}')" "$(log_of cut)"
expect 3 "$BACKSTEP" sql ../cut "SELECT count(*) AS n FROM events"
says 'process #1: '
[ "$(tail -n 1 "$T/out" | tr -d ' ')" = 20 ] || fail "of a log that ends in event 20: $(cat "$T/out")"
ok
