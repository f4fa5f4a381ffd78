#!/usr/bin/env bash
# pack --sources: gdb shows the sources that were packed, also when those on the disk are others, which it says, or gone; in folders below the one
# that was compiled in, too. A program without debug information gets a line.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
mkdir -p project/parts
cat >project/main.c <<'C'
#include "parts/part.h"
int main(void) { return twice(21) - 42; }  // the first main
C
cat >project/parts/part.h <<'C'
int twice(int n);
C
cat >project/parts/part.c <<'C'
#include "part.h"
int twice(int n) {
  return 2 * n;  // the first part
}
C
(cd project && gcc -g -O0 -o "$T/double" main.c parts/part.c)
"$BACKSTEP" record -q -o rec-double ./double
expect 0 "$BACKSTEP" pack --sources rec-double
seen '3 source files taken along' <"$T/out" || fail "$(cat "$T/out")"
in_gdb double 'list twice' 'list main'
printed 'the first part'
not_printed 'not what was packed'
sed -i 's/the first/another/' project/main.c project/parts/part.c
in_gdb double 'list twice' 'list main'
printed 'the first part'
printed 'the first main'
printed 'backstep: .*project/main.c and 1 more source files on this disk are not what was packed'
rm -r project
in_gdb double 'break part.c:3' 'continue' 'info source'
printed 'the first part'
strip -o bare double
"$BACKSTEP" record -q -o rec-bare ./bare
timeout "$PATIENCE" "$BACKSTEP" replay rec-bare -nx -batch >gdb 2>&1
printed 'backstep: .*/bare has no debug information: with -g'
timeout "$PATIENCE" "$BACKSTEP" replay rec-double -nx -batch >gdb 2>&1
not_printed 'no debug information'
expect 2 "$BACKSTEP" pack --sources --logs rec-double
ok
