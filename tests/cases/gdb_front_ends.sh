#!/usr/bin/env bash
# Other faces of gdb: the machine interface that IDEs speak, what VS Code's C++ extension says, the text interface on a terminal.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
need script
compile loop <<'C'
#include <stdio.h>
int total;
int add(int i) { total += i; return total; }
int main(void) {
  for (int i = 0; i < 10; i++)
    add(i);
  printf("total %d\n", total);
  return 3;
}
C
recorded loop 3
mi() { timeout "$PATIENCE" "$PYTHON" -B "$SRC/tests/cases/mi.py" "$@" || fail "mi $1"; }
mi tour "$T/loop" "$BACKSTEP" replay -q "$T/rec-loop" -nx -i=mi
mi tour "$T/loop" "$BACKSTEP" replay "$T/rec-loop" -nx --interpreter=mi3
serve loop
mi vscode "$T/loop" "127.0.0.1:$port" gdb -nx -q -iex 'set remotetimeout 1000' --interpreter=mi
stop_server

# The text interface: a screen with the source and the place in it, in both directions.
cat >"$T/keys" <<'K'
break add if i == 4
continue
reverse-step
print 4200 + i
quit
K
(while read -r line; do sleep 0.4; printf '%s\n' "$line"; done <"$T/keys"; sleep 0.3) |
  TERM=xterm timeout "$PATIENCE" script -qec "stty rows 40 cols 120; \
    '$BACKSTEP' replay -q '$T/rec-loop' -nx -iex 'set style enabled off' -iex 'set confirm off' -tui" /dev/null >"$T/screen" 2>&1
for text in 'int add(int i)' 'Breakpoint 1, add (i=4)' '\$1 = 4204'; do
  grep -q -- "$text" "$T/screen" || fail "not on the screen: $text"
done
ok
