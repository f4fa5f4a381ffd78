#!/usr/bin/env bash
# Random debug code (tests/fuzz/debug_code.py): stores everywhere, library calls that end programs, wild jumps, random
# instructions and system calls, in threads and signal handlers. The replay stays what was recorded, bit for bit, and comes to
# its end; where it is known what is wrong, that is said at its line. SEEDS are the seeds.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings"
gcc -g -O1 -pthread -o victim "$SRC/tests/fuzz/victim.c"
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/victim" ./victim
touch witness
export BACKSTEP_DEBUG_SECONDS=0.2
seeds=${SEEDS:-1 2 3}
for seed in $seeds; do
  say "seed $seed"
  "$PYTHON" "$SRC/tests/fuzz/debug_code.py" "$seed" 8 "seed$seed"
  places=()
  while read -r n name words; do
    line=$(grep -n "AT $n " "$SRC/tests/fuzz/victim.c" | cut -d: -f1)
    places+=(--at "victim.c:$line" "@seed$seed/$name")
  done <"seed$seed/list"
  status=0
  timeout "$PATIENCE" "$BACKSTEP" probe "${places[@]}" victim >out 2>err || status=$?
  [ $status -le 1 ] || { cat err >&2; fail "seed $seed: the exit status is $status"; }
  grep -aE 'divergence|diverged|internal error|ended unexpectedly|bug in backstep|stranger|does not compile' err >&2 && fail "seed $seed: this must not be"
  while read -r n name words; do
    [ -n "$words" ] || continue
    line=$(grep -n BAD "seed$seed/$name" | head -n 1 | cut -d: -f1)
    grep -aqE "seed$seed/$name:$line: it .*($words)" err ||
      { grep -a "$name" err >&2 || cat err >&2; cat "seed$seed/$name" >&2; fail "seed $seed: $name does not say '$words' at line $line"; }
  done <"seed$seed/list"
  [ -e witness ] || fail "seed $seed: a file of the user's is gone"
done
expect 0 "$BACKSTEP" replay --autopilot --check=deep victim
ok
