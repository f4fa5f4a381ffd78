#!/usr/bin/env bash
# Things that once made a replay differ (tests/programs/sys_corners.c says which); and other ways to stdout.
source "$(dirname "$0")/lib.bash"
record_replay corners "$P/sys_corners"
for what in 'behind the end: 0 Z' 'appended: abcXYZ' 'to myself: consistent'; do
  grep -q "$what" corners.out || fail "not as on Linux: $what"
done
OUTPUT=same record_replay other-ways bash -c 'echo a >>/dev/stdout; echo b >>/dev/stderr; echo c >>/proc/self/fd/1; echo d >>/dev/fd/2'
OUTPUT=same record_replay few-descriptors bash -c 'ulimit -n 12; exec 9<&0 11>&1; echo through >&11'
ok
