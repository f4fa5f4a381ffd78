#!/usr/bin/env bash
# Filters that the program installs for itself (seccomp) hold for its own calls, as the kernel would apply them, and not
# for ours; a replay needs none of them.
source "$(dirname "$0")/lib.bash"
OUTPUT=same TREE_OPTIONS=--incomplete record_tree filters "$P/sys_seccomp"
grep -q 'after exec: getpgrp -1, errno 33' filters.out || { cat filters.out; fail "filters are lost at execve"; }
"$BACKSTEP" dump filters | seen 'mmap(.*filter of the program' || fail "dump does not say who denied the call"
RECORD_OPTIONS=--check=deep TREE_OPTIONS=--incomplete record_tree deep "$P/sys_seccomp"
# A real user, with many processes.
if have man; then
  MANPAGER="cat" record_tree man man -l "$SRC/docs/man/backstep-ls.1"
  [ "$(for ((i = 1; i <= logs; i++)); do "$BACKSTEP" dump -p "#$i" man 2>/dev/null; done | grep -c 'seccomp(')" -gt 0 ] ||
    say "this man installs no filters"
fi
# A program that runs on without us takes its filters with it.
expect 0 "$BACKSTEP" record -q --no-follow -o alone -- "$P/sys_seccomp"
grep -q 'after exec: getpgrp -1, errno 33' out || { cat out; fail "filters are lost without following"; }
ok
