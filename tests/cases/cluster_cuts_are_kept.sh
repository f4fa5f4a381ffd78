#!/usr/bin/env bash
# Cuts have names, are gone back to, sent to others, and stepped from in both directions; whatever is read is checked.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cases/cluster_chain.bash
source "$(dirname "$0")/cluster_chain.bash"

cluster cuts run | seen 'no cuts yet' || fail "there are cuts before there is one"
expect 0 cluster break run A/chain "$WRONG" --name first --quick
cluster cuts run first --json --quick >first.json

# Step from it; the others follow, and the cut stays consistent.
step() {
  expect 0 cluster step run "$@" --quick
  expect 0 cluster mark run now
  consistent now || fail "after step $*: not consistent"
}
step A/chain.2 message
step A/chain.2 message --optimistic
step A/chain.1 message
step A/chain line
step A/chain stepi
step A/chain finish
[ "$(place now A/chain function)" = main ] || fail "finish did not leave the function, but is in $(place now A/chain function)"
step A/chain.2 message --back
step A/chain.1 message --back --count 2
step A/chain line --back
# There and back is no way at all.
before=$(cluster cuts run now --json --quick | field processes.0.at)
step A/chain stepi
step A/chain stepi --back
[ "$(cluster cuts run now --json --quick | field processes.0.at)" = "$before" ] || fail "stepi and back is another place"
# Where a process has sent what it takes back, nobody has it.
step A/chain message --back --count 3
[ "$(sql "SELECT count(*) FROM cuts WHERE name = 'now' AND state = 'running' AND process = 'A/chain'")" = 1 ] || fail "the client is gone"

# Back to where we were, for ever; also from a file that somebody has sent.
expect 0 cluster goto run first --quick
cluster cuts run present --json --quick >again.json
"$PYTHON" - first.json again.json <<'PY' || fail "goto leads elsewhere"
import json, sys
a, b = (json.load(open(name)) for name in sys.argv[1:])
assert a["processes"] == b["processes"]
PY
cp run/cuts/first.json sent.json
expect 0 cluster cuts run --remove first
expect 2 cluster goto run first
expect 0 cluster goto run ./sent.json --quick
expect 0 cluster goto run start --quick
expect 0 cluster goto run end --quick
seen 'A/chain.2 *ended' <"$T/out" || fail "at the end everybody has ended: $(cat "$T/out")"

# A damaged one is refused, and the others are still listed.
for change in 's/A.chain.2/A\/other/' 's/"event": [0-9]*/"event": 9999999/' 's/running/sleeping/' '5,$d'; do
  sed "$change" sent.json >run/cuts/bad.json
  expect 1 cluster goto run bad --quick
  says 'no cut|not one of this run'
  expect 0 cluster cuts run
  seen '^bad *damaged' <"$T/out" || fail "a damaged cut is not listed as one: $(cat "$T/out")"
  seen '^now ' <"$T/out" || fail "the others are not listed"
done
expect 2 cluster mark run ../x
expect 2 cluster mark run end
ok
