#!/usr/bin/env bash
# r11 through returns, indirect jumps and calls, near and far: where they lead, where they fault, and for a signal in the
# midst of one (which once was lost in the lookup of far branches). With the counter in a vector register, in memory,
# with every tick checked, and when AVX-512 takes the vector registers away.
source "$(dirname "$0")/lib.bash"
same_program isa_branches
variants=(--engine-counter=memory --engine-check-ticks "--engine-cache=64K --engine-max-block=1 --engine-no-links")
for variant in "${variants[@]}"; do
  replay_again isa_branches 1 "$variant"
  OUTPUT=same REPLAYS=1 RECORD_OPTIONS=$variant record_replay recorded "$P/isa_branches"
done
for variant in "" "${variants[@]}"; do
  OUTPUT=same LIMIT=$PATIENCE REPLAYS=1 RECORD_OPTIONS=$variant record_replay signals "$P/isa_branches" signals
done
if grep -qw avx512dq /proc/cpuinfo; then
  REPLAYS=1 record_replay vectors "$P/isa_branches" vectors
  for variant in "${variants[@]}"; do replay_again vectors 1 "$variant"; done
fi
ok
