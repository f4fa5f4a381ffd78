#!/usr/bin/env bash
# Debug regions in a gdb session (replay --probe): they run as execution passes forward, by continue and by steps, print between the
# program's own lines, stop gdb, and have callbacks. Moving back takes their variables back in time, or keeps them; jumps are silent.
# The run is the same as without them.
source "$(dirname "$0")/lib.bash"
need gdb g++
mkdir "$T/recordings" debug
cat >program.c <<'C'
#include <stdio.h>
int total;
void marker(int n) { __asm__ volatile("" : : "r"(n)); }
int work(int n) {
  total += n;
  return n * 2;
}
int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  for (int i = 1; i <= 6; i++) {
    work(i);
    printf("program %d\n", i);
    marker(i);
  }
  return 0;
}
C
"$PYTHON" - <<'PY'
text = open("program.c").read()
text = text.replace("int total;", """#include <backstep/debug.h>
BACKSTEP_GLOBAL
static int calls;
BACKSTEP_GLOBAL_END
int total;""").replace("  total += n;", """  BACKSTEP_BEGIN
    printf("debug %d %d\\n", ++calls, total);
    if (n == 4 && calls == 4) backstep_stop("the fourth");
  BACKSTEP_END
  total += n;""")
open("debug/program.c", "w").write(text)
PY
gcc -g -O0 -o program program.c
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/program" ./program
session() {  # OPTIONS -- GDB-ARGS: what was printed, without gdb's own lines
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  timeout "$PATIENCE" "$BACKSTEP" replay -q "${options[@]}" program -batch -nx -ex 'set pagination off' "$@" >log 2>&1 || true
  grep -aE '^(debug|program|backstep:|\$[0-9]|checksum)|stopped' log | sed 's/@[0-9]*:0x[0-9a-f]*/AT/g' >out
}
say "forwards"
session --probe debug/program.c -- -ex 'break marker if n == 2' -ex continue -ex 'delete' -ex continue -ex continue
cat >wanted <<'EOT'
debug 1 0
program 1
debug 2 1
program 2
debug 3 3
program 3
backstep: stopped at AT: the fourth
debug 4 6
program 4
debug 5 10
program 5
debug 6 15
program 6
EOT
grep -aE '^(debug|program|backstep: stopped)' out >got
sort wanted >a && sort got >b && diff a b >&2 || { cat log >&2; fail "what is printed on the way forwards"; }
grep -v stopped got | diff <(grep -v stopped wanted) - >&2 || fail "the order of what is printed"
say "back, with the time"
back=(-ex 'break marker' -ex continue -ex continue -ex continue -ex reverse-continue -ex reverse-continue -ex continue)
session --probe debug/program.c -- "${back[@]}"
[ "$(grep -a '^debug' out | tr '\n' ' ')" = "debug 1 0 debug 2 1 debug 3 3 debug 2 1 " ] || { cat log >&2; fail "variables do not go back: $(cat out)"; }
say "back, and keep them"
session --debug-state=keep --probe debug/program.c -- "${back[@]}"
[ "$(grep -a '^debug' out | tr '\n' ' ')" = "debug 1 0 debug 2 1 debug 3 3 debug 4 1 " ] || { cat log >&2; fail "variables are not kept: $(cat out)"; }
say "steps, a jump, and the state of the run"
fifth=$("$BACKSTEP" log 'call work' '{n}' program | sed -n '5s/ .*//p')
session --probe debug/program.c -- -ex 'break work' -ex continue -ex next -ex next -ex 'delete' -ex "goto $fifth" -ex 'monitor checksum' \
  -ex 'break work' -ex continue -ex next
with=$(grep -aE '^[0-9a-f]{8}$' log)
[ "$(grep -a '^debug' out | head -n 1)" = "debug 1 0" ] || { cat log >&2; fail "a step runs no region: $(cat out)"; }
[ "$(grep -a '^debug' out | tail -n +2)" = "debug 6 15" ] || { cat log >&2; fail "behind a jump it says '$(cat out)'"; }
timeout "$PATIENCE" "$BACKSTEP" replay -q program -batch -nx -ex "goto $fifth" -ex 'monitor checksum' >log 2>&1
[ "$with" = "$(grep -aE '^[0-9a-f]{8}$' log)" ] || fail "the run is another one with debug code: $with, $(cat log)"
say "callbacks, failures, and what does not compile"
cat >watch.cc <<'CC'
#include <backstep/debug.h>
#include <cstdio>
extern "C" int total;
static struct Begin {
  Begin() {
    backstep::on_write(&total, sizeof total, [](const backstep::Event &e) { printf("debug total %d\n", (int)e.new_value()); });
    backstep::on_call("marker", [](const backstep::Event &e) { if (e.arg(0) == 3) total = 0; });
    backstep::at_end([] { printf("debug end\n"); });
  }
} begin;
CC
for keep in follow keep; do
  session --debug-state=$keep --probe watch.cc -- -ex 'break marker if n == 3' -ex continue -ex 'reverse-continue' -ex 'delete' -ex 'continue'
  first="debug total 1 debug total 3 debug total 6 "
  [ "$(grep -a '^debug' out | tr '\n' ' ')" = "$first${first}debug total 10 debug total 15 debug total 21 debug end " ] ||
    { cat log >&2; fail "callbacks ($keep): $(cat out)"; }
  [ "$(grep -ac 'watch.cc:7: it writes to .* memory of the recorded program' log)" -ge 1 ] || { cat log >&2; fail "no word of the store"; }
done
sed -i 's/total = 0/toatl = 0/' watch.cc
expect 1 "$BACKSTEP" replay -q --probe watch.cc program -batch
grep -q "watch.cc:7:.*toatl" err || fail "the compiler's complaint: $(cat err)"
expect 0 "$BACKSTEP" replay --autopilot program
ok
