#!/usr/bin/env bash
# 'rm' by age, number and success; what is still being made stays, unless one insists; 'ls' adds up.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
recordings() { "$BACKSTEP" ls --json | jq -r '.[].name' | tr '\n' ' '; }
for _ in 1 2 3; do "$BACKSTEP" record -q true; done
"$BACKSTEP" record -q false && fail "false has succeeded"
expect 0 "$BACKSTEP" ls
grep -qE '^4 recordings, [0-9.]+ .B, and [0-9.]+ .B of mapped files in the store$' "$T/out" || fail "ls: $(cat "$T/out")"
# One that is being made: in a child that is left behind, too.
mkfifo go
"$BACKSTEP" record -q sh -c '(read -r x <go; exit 0) & exit 0'
[ "$(recordings)" = "true-1 true-2 true-3 false-1 sh-1 " ] || fail "recordings: $(recordings)"
expect 1 "$BACKSTEP" rm sh-1
says 'sh-1 is still being made: end its program first, or remove it with -f'
expect 0 "$BACKSTEP" rm --passed --keep 4
[ "$(recordings)" = "true-2 true-3 false-1 sh-1 " ] || fail "--passed --keep 4: $(recordings)"
expect 0 "$BACKSTEP" rm --passed
grep -q '^removed 2 recordings (' "$T/out" || fail "what rm says: $(cat "$T/out")"
[ "$(recordings)" = "false-1 sh-1 " ] || fail "--passed: $(recordings)"
expect 0 "$BACKSTEP" rm --all -f
[ "$(recordings)" = "sh-1 " ] || fail "rm --all has taken what is being made: $(recordings)"
echo >go
comes "$BACKSTEP" rm sh-1 2>/dev/null || fail "it cannot be removed when it is over"
[ "$(recordings)" = "" ] || fail "it cannot be removed when it is over: $(recordings)"
"$BACKSTEP" record -q true
expect 0 "$BACKSTEP" rm --older 1h
[ "$(recordings)" = "true-1 " ] || fail "--older 1h has taken what is younger"
expect 0 "$BACKSTEP" rm --older 0s
[ "$(recordings)" = "" ] || fail "--older 0s: $(recordings)"
expect 2 "$BACKSTEP" rm --older soon
says 'an age is a number with s, m, h, d or w behind it'
expect 2 "$BACKSTEP" rm --keep 3 true-1
"$BACKSTEP" record -q sh -c 'read -r x <go' &
is_there() { [[ $(recordings) == *"sh-1 "* ]]; }
comes is_there || fail "there is no recording"
expect 0 "$BACKSTEP" rm -f sh-1
echo >go
wait
ok
