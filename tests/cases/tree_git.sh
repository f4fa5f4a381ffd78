#!/usr/bin/env bash
# git init, add, commit, log, clone, gc.
source "$(dirname "$0")/lib.bash"
need git
cat >script <<'SH'
set -e
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org GIT_PAGER=cat
git init -q -b main one
cd one
seq 1000 >numbers
git add numbers
git commit -q -m first
seq 2000 >numbers
git commit -q -a -m second
git log --stat --format='%H %s' | cat
git clone -q . ../two
cd ../two
git gc -q
git fsck --no-progress
git diff HEAD~1 | head -n 8
SH
OUTPUT=same REPLAYS=1 record_tree git bash "$T/script"
[ "$logs" -gt 15 ] || fail "only $logs logs"
ok
