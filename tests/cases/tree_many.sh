#!/usr/bin/env bash
# Ten generations, and two hundred children.
source "$(dirname "$0")/lib.bash"
OUTPUT=same record_tree deep "$P/tree_generations" 10 0
[ "$logs" = 11 ] || fail "$logs logs for 10 generations"
OUTPUT=same REPLAYS=1 record_tree many "$P/tree_generations" 1 200
[ "$logs" = 122 ] || fail "$logs logs: 100 forks, 20 programs and 2 were expected"
ok
