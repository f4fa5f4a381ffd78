#!/usr/bin/env bash
# Two hosts talk at random over TCP (a forked process for each connection; partial reads and writes, peeks, shutdowns) and UDP (of which
# some gets lost), and write down what they do. The recordings, gathered, tell exactly that.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cases/cluster.bash
source "$(dirname "$0")/cluster.bash"
two_hosts
for seed in ${SEEDS:-1 2 3}; do
  rm -rf a b run truth*
  on "$B" "$BACKSTEP" record -q --host B -o b "$P/cluster_chatter" server 7001 "$seed" 3 truth.b &
  server=$!
  on "$A" "$BACKSTEP" record -q --host A -o a "$P/cluster_chatter" client 10.77.0.2 7001 "$((seed + 100))" 3 truth.a ||
    fail "the client, seed $seed"
  wait $server || fail "the server, seed $seed"
  expect 0 "$BACKSTEP" cluster gather a b -o run
  expect 0 "$BACKSTEP" cluster ls run --messages --json
  cp out run.json
  "$PYTHON" "$(dirname "$0")/cluster_compare.py" run.json truth.a truth.b || fail "what is said is not what was, seed $seed"
  # One host alone is a run, too: everything has one side only.
  expect 0 "$BACKSTEP" cluster check a --json
  seen '"unmatched"' <out || fail "nobody says that B is missing"
done
for recording in run/hosts/A run/hosts/B; do
  expect 0 "$BACKSTEP" replay --autopilot -q $recording
done
ok
