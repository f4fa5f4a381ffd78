#!/usr/bin/env bash
# A signal that comes while the recorder is on its way into a call that waits is not lost, wherever on the way it comes:
# every instruction for read, every 61st for all other calls. And with programs that depend on it.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/inject/inject.bash"
inject_way read 0 1
injected_everywhere 61
LIMIT=$PATIENCE OUTPUT=same record_tree lost "$P/sig_lost"
ok
