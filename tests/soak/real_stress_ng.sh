#!/usr/bin/env bash
# Unusual calls: stress-ng's stressors that have children or signals, a few operations each. (Left out: those that fill
# disks and memory, such as forkheavy, and memfd, which trips over a known limit of private mappings.)
source "$(dirname "$0")/../cases/lib.bash"
need stress-ng
for name in ${STRESSORS:-clone daemon dup exit-group fifo flock fork futex kill lockf mq msg pipe poll prctl procfs pthread \
  sem sem-sysv session shm shm-sysv sigpending sigrt sigsegv sigsuspend sockpair switch timer vfork vforkmany wait yield zombie}; do
  say "$name"
  REPLAYS=1 TREE_OUTPUT=no TREE_OPTIONS=--incomplete record_tree "$name" \
    stress-ng -q --"$name" 1 --"$name"-ops 20 -t 5 --temp-path "$T"
  rm -rf "${T:?}/$name" "$T/folder.$name"
done
ok
