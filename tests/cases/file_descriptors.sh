#!/usr/bin/env bash
# Programs that close everything, dup over stderr and open to the limit neither see nor hit our descriptors.
source "$(dirname "$0")/lib.bash"
same_program sys_fds
[ "$(cat sys_fds.out)" = "$(printf 'through a copy of stdout\nstdout is back\nas 900\nopened 13 until the limit\nfds right')" ] ||
  { cat sys_fds.out; fail "not what it should have written"; }
# A limit that leaves no room for our own descriptors is no concern of the program's: with a soft one it is recorded, behind a
# hard one it runs on unrecorded.
exec 3>&- 4>&- 5>&-
for limit in 4 6; do
  OUTPUT=same record_tree soft bash -c "ulimit -Sn $limit; /bin/echo hi; (/bin/true); ulimit -Sn"
  OUTPUT=same TREE_OUTPUT=no record_tree hard bash -c "ulimit -n $limit; /bin/echo hi; (/bin/true); ulimit -n"
done
ok
