#!/usr/bin/env bash
# Processes of different PID namespaces share memory: nobody knows the others by their pids.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
for how in unshare clone; do
  rm -f file
  status=$(status "$P/tree_namespaces" "$T/file" $how 2>/dev/null | tail -n 1)
  [ "$status" != 77 ] || skip "no PID namespaces here"
  rm -f file
  NATIVE=no record_tree $how "$P/tree_namespaces" "$T/file" $how
  grep -qx '0, anonymous 1200 1200, file 1500 1500' $how.out || fail "something was lost: $(cat $how.out)"
  "$BACKSTEP" info $how | seen 'different PID namespaces' || fail "info does not tell of the namespaces"
done
ok
