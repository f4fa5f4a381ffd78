#!/usr/bin/env bash
# Files that are executed cannot be written, files that are written cannot be executed, and who watches them hears of it.
source "$(dirname "$0")/lib.bash"
prepare() { cp "$P/tree_busy" busy; }
[ "$(printf '%s\n' 6.14 "$(uname -r)" | sort -V | head -n 1)" = 6.14 ] || export OLD_KERNEL=1
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree busy ./busy
ok
