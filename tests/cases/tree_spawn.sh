#!/usr/bin/env bash
# posix_spawn, vfork, system and popen, also where they fail: the error reaches the parent as it does natively.
source "$(dirname "$0")/lib.bash"
OUTPUT=same record_tree spawn "$P/tree_spawn"
ok
