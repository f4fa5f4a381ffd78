#!/usr/bin/env bash
# Programs that close everything, dup over stderr and open to the limit neither see nor hit our descriptors.
source "$(dirname "$0")/lib.bash"
same_program sys_fds
[ "$(cat sys_fds.out)" = "$(printf 'through a copy of stdout\nstdout is back\nas 900\nopened 13 until the limit\nfds right')" ] ||
  { cat sys_fds.out; fail "not what it should have written"; }
ok
