#!/usr/bin/env bash
# The same recording replayed from tiny caches, with one-instruction blocks, without links, with the counter
# in memory, with every tick checked: the replay checks each event's tick and control point, and the total is
# the same. Recording in these manners gives the same ticks, too.
source "$(dirname "$0")/lib.bash"
need perl gzip
variants=(--engine-cache=64K --engine-max-block=1 --engine-max-block=7 --engine-no-links --engine-counter=memory
  --engine-check-ticks "--engine-cache=64K --engine-max-block=2 --engine-no-links --engine-counter=memory")
each_way() {
  REPLAYS=1 record_replay "$@"
  local name=$1 variant
  shift
  for variant in "${variants[@]}"; do replay_again "$name" 1 "$variant"; done
}
each_way hello "$P/hello"
each_way exceptions "$P/exceptions"
each_way loops "$P/isa_loops"
each_way overlap "$P/isa_overlap"
each_way barrier "$P/sig_barrier"
each_way jit "$P/jit"
each_way perl perl -e 'my $s = 0; for my $i (1 .. 20000) { $s += $i % 7 if $i =~ /3/ } print "$s\n"'
head -c 200000 "$BACKSTEP" >data
each_way gzip gzip -c "$T/data"
# A program without any outside influence has the same ticks however it is recorded.
for name in asm_gas isa_loops ticks_asm ticks_nostdlib; do
  ticks=
  for variant in "" "${variants[@]}"; do
    rm -rf rec
    # shellcheck disable=SC2086
    "$BACKSTEP" record -q $variant -o rec -- "$P/$name" >/dev/null || [ "$name" = asm_gas ]
    now=$(ticks_of rec)
    [ -z "$ticks" ] || [ "$ticks" = "$now" ] || fail "$name has $now ticks with '$variant', $ticks without"
    ticks=$now
  done
done
ok
