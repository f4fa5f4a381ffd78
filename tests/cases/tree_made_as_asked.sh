#!/usr/bin/env bash
# Processes and threads are made with the flags that were asked for, or not at all; they are called as who made them; and the
# first one of a PID namespace dies of its own faults only.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree made "$P/thr_clone"
if [ "$(status "$P/thr_init" 2>/dev/null | tail -n 1)" = 77 ]; then ok; fi
# One is killed, from outside of its namespace.
LIMIT=$PATIENCE OUTPUT=same REPLAYS=0 record_replay first "$P/thr_init"
replay_tree first 1 --incomplete
# Several at once: then signals come while the recorder's own threads are anywhere.
"$P/thr_init" >native 2>/dev/null || true
for i in 1 2 3 4 5 6; do
  "$BACKSTEP" record -q -o "$T/crowd-$i" "$P/thr_init" >"crowd-$i.out" 2>/dev/null &
done
wait
for i in 1 2 3 4 5 6; do same native "crowd-$i.out" "another output in a crowd"; done
ok
