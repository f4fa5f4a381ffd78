#!/usr/bin/env bash
# shellcheck disable=SC2154  # port and server are set in gdb.bash
# Watchpoints on globals, heap and stack stop at every change, forwards and backwards, at the same places; also
# where the kernel writes; more of them than a CPU has debug registers.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile changes <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int global, other[8];
char buffer[16];
int *heap;
int local(int n) {
  int mine = 0;
  for (int i = 0; i < n; i++) mine += i;
  return mine;
}
int main(void) {
  int ends[2];
  if (pipe(ends)) return 1;
  heap = calloc(4, sizeof *heap);
  for (int i = 1; i <= 5; i++) {
    global = i * 100;
    other[i] = i;
    heap[2] += i;
    global = global;
  }
  if (write(ends[1], "from the kernel", 16) != 16) return 1;
  if (read(ends[0], buffer, 16) != 16) return 1;
  memset(buffer, 'x', 15);
  printf("%d %d %s\n", local(4), heap[2], buffer);
  return 0;
}
C
recorded changes 0
in_gdb changes 'break main' 'continue' 'watch global' 'continue' 'continue' 'continue' 'continue' 'continue' \
  'reverse-continue' 'reverse-continue' 'reverse-continue' 'reverse-continue' 'reverse-continue' 'print global' \
  'reverse-continue'
for v in 100 200 300 400; do times 2 "^New value = $v$"; done
times 1 '^New value = 500$'
times 1 '^New value = 0$'
printed '^\$1 = 0$'

in_gdb changes 'break main' 'continue' 'tbreak local' 'watch buffer' 'continue' 'print buffer' 'continue' 'reverse-continue' \
  'reverse-continue' 'print buffer'
printed '^\$1 = "from the kernel"$'
times 2 'New value = "from the kernel"'
printed '^\$2 = .*000'

# A local variable, until its frame is gone; the heap; many at once.
in_gdb changes 'break local' 'continue' 'watch mine' 'continue' 'continue' 'continue' 'continue' 'reverse-continue' \
  'watch -location heap[2]' 'watch other[1]' 'watch other[2]' 'watch other[3]' 'watch other[4]' 'watch other[5]' \
  'reverse-continue'
printed '^New value = 6$'
printed 'out of scope|Watchpoint 2 deleted|frame in which'
in_gdb changes 'break local' 'continue' 'watch other[1]' 'watch other[2]' 'watch other[3]' 'watch other[4]' \
  'watch other[5]' 'watch -location heap[2]' 'reverse-continue' 'reverse-continue' 'reverse-continue'
printed '^Old value = 15$'
printed '^New value = 10$'
printed '^Hardware watchpoint 6: other\[5\]$'
times 1 '^Old value = 10$'

# Reads.
in_gdb changes 'break main' 'continue' 'delete' 'rwatch heap' 'continue' 'continue' 'reverse-continue' \
  'reverse-continue' 'delete' 'awatch other[3]' 'continue' 'continue'
times 4 '^Value = '
printed '^Hardware access \(read/write\) watchpoint'
printed '^New value = 3$'
# Against an oracle: single steps over a stretch of the program, looking at the bytes after each.
serve changes
"$PYTHON" -B - "$SRC/tests/cases" "$port" "$(nm changes | awk '$3 == "main" { print $1 }')" \
  "$(nm changes | awk '$3 == "global" { print $1 }')" "$(nm changes | awk '$3 == "buffer" { print $1 }')" <<'PY'
import re, sys
sys.path.insert(0, sys.argv[1])
import rsp
s = rsp.Session(int(sys.argv[2]))
base = 0x11400000  # where a PIE is loaded (src/engine/layout.h)
main, variable, buffer = (base + int(a, 16) for a in sys.argv[3:6])
s.ask("Z0,%x,1" % main)
s.ask("vCont;c")
s.ask("z0,%x,1" % main)
first = int(s.when()[1:].split(":")[0])
rsp.watches(s, variable, 4, first, first + 300)
s.goto("@%d" % first)
assert s.ask("QCatchSyscalls:1;0") == "OK"
assert "syscall_entry:0" in s.ask("vCont;c")
assert s.ask("QCatchSyscalls:0") == "OK"
read = int(s.when()[1:].split(":")[0])
rsp.watches(s, buffer, 16, read - 5, read + 60)
s.goto("@%d" % first)
stack = int.from_bytes(bytes.fromhex(s.ask("p7")), "little")
rsp.watches(s, stack - 64, 8, first, first + 60)
PY
stop_server
ok
