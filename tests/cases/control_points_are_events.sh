#!/usr/bin/env bash
# A control point that a log line begins with is an event that matches once.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/list.bash"

"$BACKSTEP" log list.c:8 ./recording | awk '{print $1}' >points
[ "$(wc -l <points)" -eq 3 ] || fail "line 8 is executed three times: $(cat points)"
mapfile -t points <points
[ "$("$BACKSTEP" count "${points[@]}" "${points[0]} in [0,1)" ./recording | awk '{print $1}' | tr '\n' ' ')" = "1 1 1 0 " ] ||
  fail "the points: $("$BACKSTEP" count "${points[@]}" ./recording)"
[ "$("$BACKSTEP" log "${points[1]}" '{value}' ./recording)" = "$("$BACKSTEP" log 'list.c:8 if value == 2' '{value}' ./recording)" ] ||
  fail "values there"
ok
