#!/usr/bin/env bash
# A thread with descriptors, a working directory or a umask of its own (unshare, close_range): the others keep theirs, its
# children, threads and the program that it becomes have its own.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
for who in worker first alone clone exec-worker exec-first; do
  OUTPUT=same record_tree "$who" "$P/thr_own_world" "$who"
done
NATIVE=no RECORD_OPTIONS=--chaos=5 record_tree chaos "$P/thr_own_world" worker
same worker.out chaos.out "in chaos mode it does something else"
ok
