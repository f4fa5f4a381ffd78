#!/usr/bin/env bash
# Two nodes of a Raft say that x is something else. The session of docs/distributed.md, command by command: three nodes and a client are
# recorded, an assertion over the run finds what is wrong, another one why that could be, and the node that voted twice says in which
# line. BACKSTEP: the program; it works in a folder of its own.
set -euo pipefail
backstep() { "${BACKSTEP:-backstep}" "$@"; }
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
[ -n "${KEEP:-}" ] || trap 'rm -rf "$folder"' EXIT
cd "$folder"
cp "$here"/*.cc "$here"/*.sql .
# Addresses of the loopback that nobody else has: sessions may run side by side.
net=127.$((1 + $$ / 250 % 250)).$((1 + $$ % 250))
# enter COMMAND: as one types it.
enter() {
  echo "\$ $*"
  eval "$*"
}
# hosts PROGRAM NODE1 NODE2 NODE3 CLIENT: cluster.toml, with the arguments of each.
hosts() {
  local program=$1 names=(A B C client) number=0 arguments
  shift
  echo 'launch = "env {command}"'
  for arguments; do
    printf '[[host]]\nname = "%s"\ncommand = ["./%s"' "${names[number]}" "$program"
    for word in $arguments; do printf ', "%s"' "$word"; done
    printf ']\nfolder = "%s"\nbackstep = "%s"\n' "$folder/$program-${names[number]}" "${BACKSTEP:-backstep}"
    [ "${names[number]}" = client ] || echo 'daemon = true'
    number=$((number + 1))
  done
}
compile() { g++ -std=c++20 -g -O1 -I"${BACKSTEP_INCLUDE:-$here/../../include}" "$@"; }

compile -o raft raft.cc
# Between nodes 1 and 2 nothing arrives; 1 and 2 stand for election early, 3 never does.
hosts raft "node $net 1 1 2" "node $net 2 100 1" "node $net 3 3600000" \
  "client $net leader:1 leader:2 set:1:11 set:2:22 get:1 get:2 get:3" >cluster.toml

enter backstep cluster record cluster.toml -o run
enter 'backstep cluster events run "record * apply reaching-a-label" --value value'
enter 'backstep cluster sql run <agreement.sql'
enter 'backstep cluster events run "record * user-event"'
enter 'backstep cluster sql run <two_leaders.sql'
enter backstep cluster path run B/raft become_leader --depth 2
enter 'backstep cluster events run "record C/raft self.voted_for assignment-to-variables"'
enter 'backstep cluster sql run <votes.sql'
enter 'backstep cluster break run C/raft write self.voted_for if self.voted_for == 0 --count -1 --name forgets'
enter 'backstep cluster gdb run C/raft forgets -- -batch -ex backtrace -ex "frame function on_ask_vote" -ex "print m.term"'

echo "--- Mended, and with all links whole:"
compile -DMENDED -o mended raft.cc
hosts mended "node $net 1 1" "node $net 2 3600000" "node $net 3 3600000" "client $net leader:1 set:1:11 set:2:22 get:1" >cluster.toml
enter backstep cluster record cluster.toml -o mended-run
enter 'backstep cluster events mended-run "record * apply reaching-a-label" --value value'
enter 'backstep cluster events mended-run "record * user-event"'
enter 'backstep cluster sql mended-run <agreement.sql'
enter 'backstep cluster sql mended-run <two_leaders.sql'
