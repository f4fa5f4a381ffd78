#!/usr/bin/env bash
# The calls of a function without a result are listed like others.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/list.bash"

"$BACKSTEP" calls add ./recording >listed || fail "calls of a function that returns nothing"
[ "$(grep -oE 'add\(value=[0-9]+\)  [0-9]+ ticks  from main' listed | grep -oE '=[0-9]+' | tr '\n' ' ')" = "=1 =2 =3 " ] ||
  fail "the calls: $(cat listed)"
[ "$("$BACKSTEP" calls add --json ./recording | grep -c '"ret":null,"end":"returned"')" -eq 3 ] || fail "as JSON"
ok
