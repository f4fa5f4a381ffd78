#!/usr/bin/env bash
# Checkpoints are stored while debug code goes along with a session: without it, so they are as good as any. Whoever keeps the
# state of debug code uses them; whoever has it follow the time runs it on the whole way, with the same result.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
need g++
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
code='static std::vector<unsigned long> seeds; seeds.push_back(seed); if (seeds.size() != seed + 1 || seed == 1499) printf("round %zu %lu\n", seeds.size(), seed);'
probed() {  # OPTION... -- GDB-COMMAND...
  local options=() commands=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  for c; do commands+=(-ex "$c"); done
  timeout "$PATIENCE" "$BACKSTEP" replay -q "${options[@]}" --probe-at "round_of $code" "$T/rec-crash" -nx -batch "${commands[@]}" \
    >gdb 2>&1 || { cat gdb; fail "gdb ended with $?"; }
}
say "they are made"
probed --checkpoints 0.01 -- continue 'print sum' 'monitor checksum'
printed 'SIGSEGV'
printed '^round 1500 1499$'
sum=$(sed -n 's/^\$1 = //p' gdb) checksum=$(grep -E '^[0-9a-f]{8}$' gdb)
some_are_stored() { [ "$(count)" -ge 2 ]; }
comes some_are_stored || fail "$(count) checkpoints were stored"
expect 0 "$BACKSTEP" checkpoints --verify rec-crash
say "and used where nothing follows the time"
in_gdb crash 'goto end' 'print sum' 'monitor checksum' 'monitor stored'
printed "^\\\$1 = $sum\$"
printed "^$checksum\$"
printed '[1-9][0-9]* used'
probed --debug-state=keep --checkpoints 0.01 -- 'goto end' 'print sum' 'monitor checksum' 'monitor stored'
printed "^\\\$1 = $sum\$"
printed "^$checksum\$"
printed '[1-9][0-9]* used'
say "the code runs on the whole way otherwise"
probed -- 'break round_of if seed == 1498' 'goto 99%' 'goto start' 'goto 50%' 'delete' continue 'monitor checksum'
printed '^round 1500 1499$'
printed "^$checksum\$"
if grep '^round [0-9]' gdb | grep -qv '^round 1500 1499$'; then cat gdb; fail "calls are missing"; fi
ok
