#!/usr/bin/env bash
# Generated code in memory that is mapped shared, with instructions across the borders of pages: written and executed through two
# mappings or one, alone, with a child that writes code as well, and when a process that is not recorded has the memory, too.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
for how in twice once; do
  OUTPUT=same record_tree $how "$P/jit_border" $how
  [ "$logs" = 2 ] || fail "$logs logs instead of 2"
  OUTPUT=same record_tree $how-file "$P/jit_border" $how "$T/file.$how"
  exec 9<>"$T/file.$how"
  sleep 10000 &
  stranger=$!
  exec 9>&-
  OUTPUT=same record_tree $how-stranger "$P/jit_border" $how "$T/file.$how"
  kill $stranger
done
ok
