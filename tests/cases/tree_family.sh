#!/usr/bin/env bash
# Waiting, zombies, orphans, groups, sessions; a daemon that outlives the first process is recorded to its end.
source "$(dirname "$0")/lib.bash"
# Some of them die of SIGKILL, and so have no end.
TREE_OPTIONS=--incomplete record_tree family "$P/tree_family"
grep -q 'last words' family.out || fail "the daemon was not recorded to its end"
record_tree signals "$P/tree_signals"
# A process that crashes is named at the end, even if the program as a whole goes on.
"$BACKSTEP" record -o crashes sh -c '"$1" abort; "$1" null; true' - "$P/die" >out 2>err || fail "the shell failed"
number=$("$BACKSTEP" ps --json crashes | "$PYTHON" -c 'import json, sys
print(min(p["number"] for p in json.load(sys.stdin) if "SIGABRT" in json.dumps(p)))')
grep -q "process #$number (.*/die abort) died of SIGABRT, and 1 more crashed; backstep replay -p '#$number' shows it" err ||
  { cat err >&2; fail "the crash of process $number is not told"; }
ok
