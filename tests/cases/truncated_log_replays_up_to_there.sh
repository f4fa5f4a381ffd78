#!/usr/bin/env bash
# The log cut off at any length: what is left replays, with a sentence, and the output is a beginning of the
# recorded one.
source "$(dirname "$0")/lib.bash"
record_replay hello "$P/hello"
used=$(damage events "$(log_of hello)" | tail -n 1 | awk '{print $3 + $4}')
for length in 0 1 63 64 65 100 127 128 129 $("$PYTHON" -c "print(*[140 + i * ($used - 150) // 40 for i in range(40)], $used - 1)"); do
  copy_recording hello cut
  truncate -s "$length" "$(log_of cut)"
  honest cut "log cut off at byte $length"
  "$PYTHON" -c 'import sys; sys.exit(not open("hello.out", "rb").read().startswith(open("out", "rb").read()))' ||
    fail "log cut off at byte $length: replay invented output"
done
# Late enough, some of the output is there.
last_write=$("$BACKSTEP" dump --json -k write hello | tail -n 1 | field event)
offset=$(damage events "$(log_of hello)" | awk -v n="$last_write" '$1 == n {print $3 + $4}')
copy_recording hello cut
truncate -s "$offset" "$(log_of cut)"
honest cut "log cut off behind the write"
same hello.out out "what was written before the cut is not replayed"
# Only the space behind the last event is missing: nothing is.
copy_recording hello cut
truncate -s "$used" "$(log_of cut)"
expect 0 "$BACKSTEP" replay --autopilot cut
ok
