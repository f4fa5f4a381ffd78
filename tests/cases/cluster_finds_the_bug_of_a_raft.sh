#!/usr/bin/env bash
# The session of examples/raft, as docs/distributed.md shows it: three nodes and a client are recorded; an assertion over the run finds
# that nodes disagree, another one that a term has two leaders; who voted for both is found by the way of the votes, and why by the
# last assignment to its vote. All commands of the documentation are in it. What is recorded replays exactly.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
mkdir work
KEEP=yes TMPDIR=$T/work BACKSTEP_INCLUDE="$SRC/include" expect 0 bash "$SRC/examples/raft/session.sh"
cp out session
has() { grep -qE -- "$1" session || { cat session err >&2; fail "the session does not say '$1'"; }; }
has '^x is 11 at node 1$'
has '^x is 22 at node 2$'
has '^1 +A/raft +apply: 11 +B/raft +apply: 22$'
has '^leader: 1 +A/raft +B/raft$'
has '^C/raft .* -> +B/raft .*on udp B/raft:7000 #1$'
has '^B/raft .*become_leader at raft.cc:[0-9]+ .*<- here: become_leader'
# On a busy machine B may come first.
has '^self.voted_for: 0 -> 1 +raft.cc:'
has '^self.voted_for: [12] -> 0 +raft.cc:'
has '^self.voted_for: 0 -> 2 +raft.cc:'
has '^C/raft +stopped .*enter_term at raft.cc:'
has "^[AB]/raft +running .*C/raft's recvfrom .*needed 52 bytes on udp C/raft:7000 #1 from here"
has '^[0-9]+.*if \(m.term >= term\) enter_term\(m.term\);'
has '^\$1 = 1$'
# Mended: both values everywhere, in one order, and one leader.
sed '1,/^--- Mended/d' session >mended
[ "$(grep -cE '^[ABC]/mended +reaching-a-label +apply +value +2$' mended)" -ge 1 ] || { cat mended >&2; fail "the mended one applies nothing"; }
[ "$(grep -cE '^A/mended +user-event +leader +1$' mended)" = 1 ] || { cat mended >&2; fail "the mended one has no leader"; }
[ "$(tail -n 1 mended)" = 'what  process  process' ] || { cat mended >&2; fail "two leaders of the mended one"; }
grep -q '^1 ' mended && { cat mended >&2; fail "the mended ones disagree"; }
# The documentation shows what is done here.
sed -n '/^### A session/,/^## /p' "$SRC/docs/distributed.md" | grep '^\$ ' >shown
[ "$(wc -l <shown)" -ge 9 ] || fail "the documentation shows $(wc -l <shown) commands"
while IFS= read -r line; do
  grep -qxF -- "$line" session || fail "the documentation has '$line', the session does not"
done <shown
for host in A B C client; do
  mv work/*/run/hosts/$host "$T/raft-$host"
  TREE_OUTPUT=no replay_tree "raft-$host" 1
done
ok
