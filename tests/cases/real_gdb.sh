#!/usr/bin/env bash
# gdb and strace, recorded while they debug and trace a small program.
source "$(dirname "$0")/lib.bash"
need gdb gcc
cat >small.c <<'C'
#include <stdio.h>
int twice(int x) { return 2 * x; }
int main(void) {
  int s = 0;
  for (int i = 0; i < 5; i++) s += twice(i);
  printf("sum %d\n", s);
  return s;
}
C
gcc -g -O0 -o small small.c
cat >commands <<'GDB'
set pagination off
break twice
run
backtrace
print x
watch -l x
continue
delete
finish
stepi
continue
GDB
TREE_OUTPUT=no record_tree gdb gdb -nx -q -batch -x "$T/commands" "$T/small"
for output in gdb.out.native gdb.out; do sed -i 's/process [0-9]*/process N/' $output; done
same gdb.out.native gdb.out "a recorded gdb sees something else"
grep -q 'exited with code 024' gdb.out || fail "gdb did not get to the end"
if have strace; then
  TREE_OUTPUT=no TREE_OPTIONS=--incomplete record_tree strace strace -f -e trace=write,exit_group "$T/small"
  grep -q 'write(1, "sum 20' strace.err || { cat strace.err; fail "strace saw no write"; }
fi
ok
