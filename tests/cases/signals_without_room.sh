#!/usr/bin/env bash
# Signals for which there is no room: on the stack of the handler, where SIGSEGV comes in their place, and in the kernel's
# queue (RLIMIT_SIGPENDING), where none of ours may be lost or taken for the program's.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
OUTPUT=same record_tree frames "$P/sig_no_frame"
OUTPUT=same same_program sig_no_frame 9
"$BACKSTEP" dump sig_no_frame | seen 'SIGSEGV' || fail "dump does not show the signal that came in the place of another"
LIMIT=$PATIENCE OUTPUT=same record_tree queue "$P/thr_no_queue"
ok
