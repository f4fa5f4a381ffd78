#!/usr/bin/env bash
# A session begins with three lines, and without gdb's own words about connecting. `help backstep` and `apropos backstep` say what there is; a move that
# failed shows no stop; `process` says how processes ended; on the way back a watchpoint says what it is in front of, and one through a bad pointer
# that it is; `quit` does not ask: nothing is lost.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
need gdb
"$BACKSTEP" record -q -o rec "$P/hello" >/dev/null 2>&1
printf '%s\n' 'help backstep' 'echo apropos:\n' 'apropos backstep' quit |
  timeout "$PATIENCE" "$BACKSTEP" replay rec -nx >said 2>&1 || fail "gdb: $(tail -n 5 said)"
sed "s/^(backstep) //" said >out
for command in goto last-write why when bookmark process; do
  sed '/^apropos:/,$d' out | seen -- "^$command\|, $command" || fail "help backstep does not know $command: $(cat out)"
done
for command in backstep goto last-write why count; do
  sed '1,/apropos:/d' out | seen -- "^$command " || fail "apropos backstep does not find $command: $(cat out)"
done
grep -A 2 '^backstep: at the start of the recording. Its end: the program exits with status' out >banner || fail "no banner: $(head out)"
seen '^  the run:   .*hello, 20' <banner || fail "$(cat banner)"
seen '^  commands:  reverse-continue' <banner || fail "$(cat banner)"
if seen 'Remote debugging\|Reading symbols\|_start ()' <out; then fail "gdb's own words: $(head out)"; fi
source "$SRC/tests/cases/gdb.bash"
compile store <<'C'
#include <unistd.h>
int value, *bad = (int*)8;
static char text[8];
void set(int v) { value = v; }
int main(void) {
  int ends[2];
  set(7);
  set(8);
  if (pipe(ends) || write(ends[1], "abc", 3) != 3 || read(ends[0], text, 3) != 3) return 1;
  return 3;
}
C
recorded store 3
in_gdb store 'break main' 'continue' 'goto nowhere' 'echo between\n' 'goto output never' 'echo behind\n' 'goto end' 'watch value' 'reverse-continue' \
  'process' 'watch *bad' 'delete' 'goto end' 'watch text' 'reverse-continue'
if sed -n '/nowhere/,/behind/p' gdb | seen 'Program\|set\|main'; then fail "a move that failed shows a stop: $(cat gdb)"; fi
printed 'neither a control point'
printed '^backstep: in front of the store that changed it \(thread [0-9]+, @[0-9]+:0x[0-9a-f]+\); stepi makes it again'
printed '^backstep: in front of the system call read that changed it'
printed '#1 +[0-9]+ +start +exit 3 +.*store'
printed '^backstep: watchpoint 3: cannot access memory at address 0x8 now'
# What was ended by Ctrl-C begins at the end, also if it caught that.
"$BACKSTEP" record -q -o rec-caught sh -c 'exit 130' >/dev/null 2>&1 || true
in_gdb caught 'when'
printed '100.0 % of the run'
if seen -i 'anyway' <out; then fail "quit asks: $(tail -n 4 out)"; fi
ok
