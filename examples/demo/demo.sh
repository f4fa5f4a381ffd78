#!/usr/bin/env bash
# The tour of `./run demo`: records a program that crashes, looks at the recording, and replays it three times.
# Needs BACKSTEP, the path of the program. Leaves its recording in a temporary library that is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BACKSTEP_DIR=$work/recordings

say() { printf '\n# %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; }

say "A small warehouse program, 100 lines of C, compiled as usual. It has a bug."
show "gcc -g -O1 -o inventory inventory.c"
gcc -g -O1 -o "$work/inventory" inventory.c

say "Record a run. The program behaves as always; here it crashes."
show "backstep record ./inventory orders.txt"
status=0
"$BACKSTEP" record "$work/inventory" orders.txt || status=$?
echo "(exit status $status)"
[ "$status" -eq 139 ] || { echo "demo: expected the program to die of SIGSEGV" >&2; exit 1; }

say "What was recorded, and where it died: a control point, which names that one execution of that one instruction."
show "backstep info"
"$BACKSTEP" info

say "The last events before the crash."
show "backstep dump | tail -n 6"
"$BACKSTEP" dump | tail -n 6

say "The same run again, three times. Replay checks itself at every event; exit status 0 means: exact."
for round in 1 2 3; do
  show "backstep replay --autopilot >out.$round"
  "$BACKSTEP" replay --autopilot >"$work/out.$round"
  echo "(exit status 0, output $(wc -l <"$work/out.$round") lines, sha256 $(sha256sum <"$work/out.$round" | cut -c1-16))"
done
cmp "$work/out.1" "$work/out.2"
cmp "$work/out.2" "$work/out.3"

say "Each replay ended at the same control point with the same output. The input file and even the program may go:"
show "rm inventory && backstep replay --autopilot"
rm "$work/inventory"
"$BACKSTEP" replay --autopilot
