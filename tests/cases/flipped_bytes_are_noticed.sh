#!/usr/bin/env bash
# One bit flipped in the log, at 150 places: each time a report and exit status 3; what is printed is a beginning
# of the recorded output; info and dump say it, too, and do not crash.
source "$(dirname "$0")/lib.bash"
record_replay hello "$P/hello"
for place in $(damage places "$(log_of hello)" "${PLACES:-150}"); do
  copy_recording hello bad
  damage flip "$(log_of bad)" "$place"
  honest bad "byte $place flipped"
  "$PYTHON" -c 'import sys; sys.exit(not open("hello.out", "rb").read().startswith(open("out", "rb").read()))' ||
    fail "byte $place flipped: replay invented output"
  if [ $((place % 5)) = 0 ]; then
    for command in info dump; do
      got=0
      timeout "$PATIENCE" "$BACKSTEP" $command bad >out 2>err || got=$?
      [ $got -le 3 ] || fail "byte $place flipped: $command ended with $got"
    done
  fi
done
ok
