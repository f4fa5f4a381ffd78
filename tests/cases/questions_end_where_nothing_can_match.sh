#!/usr/bin/env bash
# A question about a moment or an era replays no more than up to its end: what comes behind it may even be damaged.
source "$(dirname "$0")/lib.bash"
record_replay hello "$P/hello"
ticks=$(ticks_of hello)
copy_recording hello bad
last=$(damage events "$(log_of bad)" | awk '$2 == "syscall" { n[++count] = $1 } END { print n[int(count * 0.8)] }')
damage remove "$(log_of bad)" "$last"
[ "$ticks" -gt 3000 ] || fail "it is too short: $ticks"
expect 3 "$BACKSTEP" count "every 1000" bad
says 'diverge'
# asked WANTED SPEC...: the same of both.
asked() {
  local want=$1
  shift
  for recording in hello bad; do
    expect 0 "$BACKSTEP" count --json "$@" "$recording"
    [ "$(field 0.count <out)" = "$want" ] || fail "$recording: $* is $(cat out) instead of $want"
  done
}
asked 1 'tick 1000'
asked 10 'every 100 in [1000,2000)'
asked 9 'every 100 in [1001,2000)'
asked 1 'tick 1000' 'every 100 in [100,150)' 'tick 1100'
expect 0 "$BACKSTEP" log --json 'every 100 in [1000,1001)' '{$pc}' bad
at=$(field at <out)
asked 1 "$at"
asked 1 "pc ${at#*:} in [1000,1001)"
expect 0 "$BACKSTEP" count --json --from 500 --to 1000 'every 100' bad
[ "$(field 0.count <out)" = 5 ] || fail "from 500 to 1000: $(cat out)"
ok
