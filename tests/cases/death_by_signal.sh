#!/usr/bin/env bash
# A program that dies of a signal dies of it under record as well (status 128+n for the shell), and `info`
# says of which, and where.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
for how in null null-read wild-call null-call no-exec non-canonical non-canonical-call non-canonical-ret read-only \
  divide divide-overflow ud2 bad-opcode lock-prefix hlt in int3 int-0x42 into-page-end cut-instruction misaligned \
  alignment-check bus abort assert raise-term raise-rt sigpipe xcpu blocked-fault bad-altstack exit-high; do
  [ -x "$P/die" ] || fail "the test program die was not built"
  OUTPUT=same REPLAYS=1 record_replay "die-$how" "$P/die" "$how"
done
# SIGKILL takes the recorder along: all but the end is there.
expect 137 "$BACKSTEP" record -q -o killed -- "$P/die" raise-kill
got=0
"$BACKSTEP" replay --autopilot killed >out 2>err || got=$?
[ $got = 0 ] || [ $got = 3 ] || { cat err; fail "replay of what killed itself ended with $got"; }
grep -q 'about to die of raise-kill' out || fail "its output is not replayed"
replay_again die-null 2
replay_again die-bus 2
"$BACKSTEP" info --json "$T/die-null" >info
[ "$(field end.kind <info)" = signal ] || fail "info does not say that it died of a signal: $(field end <info)"
[ "$(field end.status <info)" = 11 ] || fail "info does not say that it was signal 11"
[ "$(field end.crash.function <info)" = main ] || fail "info does not say that it died in main"
field end.crash.file <info | seen 'die\.c$' || fail "info does not say that it died in die.c"
"$BACKSTEP" info --json "$T/die-wild-call" | field end.crash.pc | grep -Eq '4886718345|0x123456789' ||
  fail "info does not give the wild address"
ok
