#!/usr/bin/env bash
# shellcheck disable=SC2154  # port is set in gdb.bash
# Conditions of watchpoints are evaluated in the replaying process where they can be; what gdb shows is what it shows when it
# evaluates all of them itself, forwards and backwards.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile changes <<'C'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
long total;
int phase;
struct { short a, b; } pair;
char text[16];
long *heap;
void step(int i) {
  long local = i;
  total += i;
  pair.b = i * 3;
  *heap ^= i;
  text[i % 16] = 'a' + i % 26;
  if (i % 15 == 0) phase++;
  local += total;
  total = local - i;
}
int main(void) {
  int ends[2];
  heap = calloc(1, 8);
  if (pipe(ends)) return 1;
  for (int i = 1; i < 64; i++) {
    step(i);
    if (i % 12 == 0 && (write(ends[1], "overwritten", 8) != 8 || read(ends[0], text, 8) != 8)) return 2;
  }
  return 0;
}
C
recorded changes 0
serve changes
# both NAME COMMAND...: with and without our script, from the start.
both() {
  local arguments=() command
  for command in 'set width 0' 'break main' 'continue' "$@"; do arguments+=(-ex "$command"); done
  timeout "$PATIENCE" "$BACKSTEP" replay -q "$T/rec-changes" -nx -batch "${arguments[@]}" >"$T/ours" 2>&1 || fail "gdb: $(cat "$T/ours")"
  timeout "$PATIENCE" gdb -nx -q -batch -ex 'set remotetimeout 1000' -ex 'set sysroot /' -ex "target extended-remote 127.0.0.1:$port" -ex 'monitor goto start' \
    -ex 'maintenance flush register-cache' "${arguments[@]}" >"$T/plain" 2>&1 || fail "gdb: $(cat "$T/plain")"
  for file in ours plain; do
    sed -n '/^Breakpoint 1, /,$p' "$T/$file" |
      grep -E "^($shown) value|^(Hardware|Breakpoint)|step \(i=|history" >"$T/$file.stops" || true
  done
  cmp -s "$T/ours.stops" "$T/plain.stops" || { diff "$T/plain.stops" "$T/ours.stops" >&2 || true; fail "conditions: $*"; }
  hits=$(grep -c '^New value' "$T/ours.stops" || true)
}
shown='Old|New'
both 'watch total if total % 7 == 3' continue continue continue reverse-continue reverse-continue reverse-continue
[ "$hits" -ge 5 ] || fail "$hits hits"
# It held on both sides of the change: gdb remembers an older value than the last one.
shown=New
both 'watch total if phase == 3' continue continue reverse-continue reverse-continue
shown='Old|New'
both 'watch -location *heap if *heap == 0 || *heap == 63' continue continue continue reverse-continue reverse-continue
both "watch text if text[0] == 'o' && text[1] == 'v'" continue continue continue reverse-continue reverse-continue
# Two on the same variable; one that changes its condition, is switched off and on.
both 'watch total if total == 105' 'watch total if total == 120' continue continue 'condition 2 total == 210' continue 'disable 2' 'tbreak step' continue 'enable 2' \
  reverse-continue 'condition 2 total == 300' continue continue reverse-continue
# A local variable: only gdb knows which frame is meant.
both 'break step if i == 5' continue 'watch local if local > 10' continue continue
stop_server
ok
