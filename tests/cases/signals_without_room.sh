#!/usr/bin/env bash
# Signals for which there is no room: on the stack of the handler, where SIGSEGV comes in their place, and in the kernel's
# queue (RLIMIT_SIGPENDING), where none of ours may be lost or taken for the program's.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
OUTPUT=same record_tree frames "$P/sig_no_frame"
OUTPUT=same same_program sig_no_frame 9
"$BACKSTEP" dump sig_no_frame | seen 'SIGSEGV' || fail "dump does not show the signal that came in the place of another"
LIMIT=$PATIENCE OUTPUT=same record_tree queue "$P/thr_no_queue"
# Several at once: on a busy machine a thread is on its way into a call for long. It waits until another thread sleeps, by /proc,
# before it sends the signal that is to end its call.
for i in 1 2 3 4 5 6; do
  timeout "$PATIENCE" "$BACKSTEP" record -q -o "$T/crowd-$i" "$P/thr_no_queue" >"$T/crowd-$i.out" 2>&1 &
  crowd[i]=$!
done
for i in 1 2 3 4 5 6; do wait "${crowd[i]}" || fail "one of a crowd ended with $?: $(cat "$T/crowd-$i.out")"; done
ok
