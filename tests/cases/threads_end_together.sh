#!/usr/bin/env bash
# However a process with threads ends, all of them end, with the right status: return from main, exit in any thread, the
# last thread's end, deadly signals, a deadlock that an alarm ends.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
for how in main exit _exit thread-exit thread-_exit last raw kill tgkill abort segv fpe ill overflow; do
  OUTPUT=same record_replay "end-$how" "$P/thr_end" "$how"
done
OUTPUT=same record_replay deadlock "$P/thr_deadlock" sure
OUTPUT=same record_replay deadlock-told "$P/thr_deadlock" told
ok
