#!/usr/bin/env bash
# The tour of `./run demo`: records a program that crashes, looks at the recording, replays it three times, and
# travels back in it with gdb, from the crash to the line that is wrong.
# Needs BACKSTEP, the path of the program. Works in a temporary folder that is removed at the end.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BACKSTEP BACKSTEP_DIR=$work/recordings
cp "$here/inventory.c" "$here/orders.txt" "$work"
cd "$work"

say() { printf '\n# %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; }

say "A small warehouse program, 100 lines of C, compiled as usual. It has a bug."
show "gcc -g -O1 -o inventory inventory.c"
gcc -g -O1 -o inventory inventory.c

say "Record a run. The program behaves as always; here it crashes."
show "backstep record ./inventory orders.txt"
status=0
# A shell in between says "Segmentation fault" as yours would, without this script's line number.
sh -c '"$BACKSTEP" record ./inventory orders.txt; exit $?' || status=$?
echo "(exit status $status)"
[ "$status" -eq 139 ] || { echo "demo: expected the program to die of SIGSEGV" >&2; exit 1; }

say "What was recorded, and where it died: a control point, which names that one execution of that one instruction."
show "backstep info"
"$BACKSTEP" info

say "The last events before the crash."
show "backstep dump | tail -n 6"
"$BACKSTEP" dump | tail -n 6

say "Now the input and even the program may go. The recording has all that is needed."
show "rm inventory orders.txt"
rm inventory orders.txt

say "The same run again, three times. Replay compares itself with the recording at every event, the crash included:"
echo "# exit status 0 means that all was the same."
for round in 1 2 3; do
  show "backstep replay --autopilot >out.$round"
  status=0
  "$BACKSTEP" replay --autopilot >"out.$round" || status=$?
  echo "(exit status $status, output: $(wc -l <"out.$round") lines, sha256 $(sha256sum <"out.$round" | cut -c1-16)…)"
  [ "$status" -eq 0 ] || exit "$status"
done
cmp out.1 out.2
cmp out.2 out.3

show "cat out.3"
cat out.3

command -v gdb >/dev/null || { echo "(gdb is not installed: no travelling in time)"; exit 0; }
say "Why did it crash? gdb shows the crash: a pointer in a list is 0x3039, which is no address."
echo "# Two steps back the loop is at the item that the pointer came from. Watch it, and let time run backwards:"
echo "# who wrote it last? (The program is deleted; its symbols come from the recording.)"
commands=('print i' reverse-step reverse-step 'print *i' 'watch -location i->next' reverse-continue backtrace
  'frame function enter' 'print name' when)
arguments=()
for command in "${commands[@]}"; do arguments+=(-ex "echo \\n(backstep) $command\\n" -ex "$command"); done
show "backstep replay"
"$BACKSTEP" replay -q latest -nx -batch -ex 'set width 0' "${arguments[@]}" 2>&1 |
  grep -v -e '^Reading ' -e '^warning: File transfers' -e 'from remote target' | tee story
grep -q 'in enter' story || { echo "demo: gdb did not find the guilty line" >&2; exit 1; }

say "strcpy, called by enter, has written beyond name[24] and over the pointer behind it."
