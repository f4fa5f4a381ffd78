#!/usr/bin/env bash
# record --limit ends the recording, not the program: of all processes together. What is there replays.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >busy.sh <<'S'
for i in 1 2; do
  (head -c 3000000 /dev/zero | tr '\0' 'a' | wc -c)
done
echo end
exit 7
S
got=0
"$BACKSTEP" record --limit 2MB -o rec sh busy.sh >out 2>err || got=$?
[ $got = 7 ] || fail "the program ended with $got: $(cat err)"
same out <(printf '3000000\n3000000\nend\n') "the program's output"
[ "$(cat rec/process-*.log | wc -c)" -lt 3000000 ] || fail "too much: $(ls -l rec)"
grep -q 'limit of 1 MB' rec/*.json || fail "no word of it: $(cat rec/*.json | tail -n 5)"
expect 0 "$BACKSTEP" ps rec
seen stopped <"$T/out" || fail "no process was stopped: $(cat "$T/out")"
got=0
"$BACKSTEP" replay --autopilot rec >replayed 2>err || got=$?
[ $got = 0 ] || [ $got = 3 ] || fail "replay ended with $got: $(cat err)"
! seen -i 'diverge' <err || fail "$(cat err)"
# One process: the closing line says it.
got=0
"$BACKSTEP" record --limit 1.5MB -o one sh -c 'head -c 6000000 /dev/urandom >/dev/null; exit 3' >out 2>err || got=$?
[ $got = 3 ] || fail "ended with $got"
"$BACKSTEP" record --limit 1MB -o two head -c 6000000 /dev/zero 2>err >/dev/null || fail "head: $(cat err)"
says 'ended early: .*limit of'
expect 2 "$BACKSTEP" record --limit 5kB true
says 'at least 1MB'
expect 2 "$BACKSTEP" record --limit much true
says 'is no size'
ok
