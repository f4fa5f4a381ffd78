#!/usr/bin/env bash
# A session leaves checkpoints in the recording; the next one starts from them, in the same state. Damaged and foreign
# ones are not used, and that is said. They can be listed, made, removed and done without.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
ulimit -c 0
compile crash -O1 <<'C'
#include <stdlib.h>
static unsigned long table[1 << 15];
unsigned long sum;
__attribute__((noinline)) void round_of(unsigned long seed) {
  for (int i = 0; i < 20000; i++) {
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    table[seed >> 49] += seed;
    sum += table[seed >> 50];
  }
}
int main(int argc, char **argv) {
  for (int i = 0; i < atoi(argv[1]); i++) round_of(i);
  *(volatile unsigned long *)8 = sum;
}
C
recorded crash 139 1500
count() { "$BACKSTEP" info --json "$T/rec-crash" | field checkpoints.count; }
[ "$(count)" = 0 ] || fail "a new recording has checkpoints"

# While gdb goes to the crash, they are made; they may be complete a moment later.
timeout "$PATIENCE" "$BACKSTEP" replay -q --checkpoints 0.01 "$T/rec-crash" -nx -batch -ex continue -ex 'print sum' \
  -ex 'monitor stored' >gdb 2>&1 || { cat gdb; fail "gdb ended with $?"; }
printed 'SIGSEGV'
sum=$(sed -n 's/^\$1 = //p' gdb)
some_are_stored() { [ "$(count)" -ge 1 ]; }
comes some_are_stored || fail "no checkpoint was stored"
"$BACKSTEP" info rec-crash | grep -q 'for [0-9]* checkpoints' || fail "info does not tell"
# The next session is there at once: from a checkpoint.
in_gdb crash 'goto end' 'print sum' 'monitor stored' 'backtrace'
printed "^\\\$1 = $sum\$"
printed '[1-9][0-9]* used'
printed 'main .*crash.c'
# Switched off.
timeout "$PATIENCE" "$BACKSTEP" replay -q --checkpoints 0 "$T/rec-crash" -nx -batch -ex 'goto end' -ex 'print sum' \
  -ex 'monitor stored' >gdb 2>&1 || fail "gdb ended with $?"
printed "^\\\$1 = $sum\$"
printed '^0 checkpoints in the recording, .* 0 made, 0 used'
expect 0 "$BACKSTEP" checkpoints --remove rec-crash
[ "$(count)" = 0 ] && [ ! -e rec-crash/checkpoints ] || fail "they are still there"
grep -q 'has no checkpoints' <("$BACKSTEP" checkpoints rec-crash) || fail "the list is not empty"

# Made ahead; random moments are the same with and without them.
expect 0 "$BACKSTEP" checkpoints --make --every 0.004 rec-crash
expect 0 "$BACKSTEP" checkpoints --verify rec-crash
many=$(count)
[ "$many" -ge 5 ] || fail "only $many checkpoints were made"
states() {
  serve crash "$@"
  rsp states 100 7 | grep '^@'
  stop_server
}
states --checkpoints 0 >without
states >with
same without with "another state with checkpoints than without"

# Damage in any place is noticed, and changes nothing.
cp -r rec-crash/checkpoints good
for round in 1 2 3; do
  rm -rf rec-crash/checkpoints
  cp -r good rec-crash/checkpoints
  "$PYTHON" - "$round" rec-crash/checkpoints/*.checkpoint <<'PY'
import os, random, sys
random.seed(int(sys.argv[1]))
for path in sys.argv[2:]:
    data = bytearray(open(path, "rb").read())
    if sys.argv[1] == "1":
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)  # one bit, anywhere
    elif sys.argv[1] == "2":
        del data[random.randrange(len(data)):]
    else:
        data[8] += 1  # of a newer version
    open(path, "wb").write(data)
PY
  states >damaged
  same without damaged "another state with damaged checkpoints (round $round)"
  grep -q 'checkpoint .* is not used: ' serve || fail "nothing was said of damage: $(cat serve)"
  expect 3 "$BACKSTEP" checkpoints --verify rec-crash
done
grep -Eq 'it has version [0-9]+, not [0-9]+' serve || fail "the version was not named"

# Those of another recording of the same program are not this one's.
mv rec-crash first
recorded crash 139 1500
mkdir rec-crash/checkpoints
cp good/* rec-crash/checkpoints/
in_gdb crash 'goto end' 'print sum'
printed 'belongs to another recording'
printed "^\\\$1 = $sum\$"
ok
