#!/usr/bin/env bash
# A recording of a newer format: a sentence that says so, from replay, info and dump.
source "$(dirname "$0")/lib.bash"
record_replay hello "$P/hello"
copy_recording hello newer
damage version "$(log_of newer)" 99
for command in "replay --autopilot" dump; do
  # shellcheck disable=SC2086
  expect 3 "$BACKSTEP" $command newer
  says 'version 99|newer'
done
copy_recording hello newer
sed -i 's/"version": *[0-9]*/"version": 99/' newer/manifest.json
got=0
"$BACKSTEP" replay --autopilot newer >out 2>err || got=$?
[ $got != 0 ] || fail "a manifest of version 99 was accepted"
says 'version|newer'
copy_recording hello broken
echo '{"this is": not' >broken/manifest.json
got=0
"$BACKSTEP" replay --autopilot broken >out 2>err || got=$?
[ $got != 0 ] && [ $got -le 3 ] || fail "a broken manifest: replay ended with $got"
says manifest
ok
