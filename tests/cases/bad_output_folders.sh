#!/usr/bin/env bash
# The recording's folder exists, cannot be made, or is no recording: a sentence, the program is not run.
source "$(dirname "$0")/lib.bash"
mkdir exists
expect 1 "$BACKSTEP" record -o exists -- touch ran
says exist
touch file
got=0
"$BACKSTEP" record -o file/rec -- touch ran 2>err || got=$?
[ $got != 0 ] || fail "recorded into a file"
got=0
BACKSTEP_DIR=/proc/no "$BACKSTEP" record -- touch ran 2>err || got=$?
[ $got != 0 ] && [ -s err ] || fail "recorded into /proc"
[ ! -e ran ] || fail "the program was run all the same"
for command in "replay --autopilot" info dump rm; do
  for what in exists no-such-recording file; do
    got=0
    # shellcheck disable=SC2086
    "$BACKSTEP" $command ./$what >out 2>err </dev/null || got=$?
    [ $got != 0 ] && [ $got -lt 126 ] && [ -s err ] || { cat err; fail "$command of $what ended with $got"; }
  done
done
[ -d exists ] && [ -e file ] || fail "rm removed what is no recording"
# An empty library.
(export BACKSTEP_DIR=$T/empty; expect 0 "$BACKSTEP" ls)
got=0
BACKSTEP_DIR=$T/empty "$BACKSTEP" replay --autopilot >out 2>err || got=$?
[ $got != 0 ] && [ -s err ] || fail "replayed nothing"
ok
