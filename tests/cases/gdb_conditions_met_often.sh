#!/usr/bin/env bash
# A breakpoint whose condition is false thousands of times is asked in translated code: it stops where it should, in the
# very state, forwards and backwards, and disturbs nothing.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile often <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
struct node { long value; struct node *next; } nodes[4] = {{1, &nodes[1]}, {2, &nodes[2]}, {3, 0}};
long total, *gone;
__attribute__((noinline)) void add(long i) { total += i & 1 ? i : -i; }
__attribute__((noinline)) void look(struct node *n) { total += n != 0; }
int main(void) {
  for (long i = 0; i < 20000; i++) add(i);
  for (int round = 0; round < 1000; round++)
    for (struct node *n = nodes; n; n = n->next) look(n);
  gone = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < 1000; i++) {
    if (i == 900) munmap(gone, 4096);
    add(i);
  }
  printf("%ld\n", total);
  return 0;
}
C
recorded often 0
# Addresses as they were when it ran.
in_gdb often 'info address add' 'disassemble add' 'disassemble main'
instructions=$(grep -Eo '^( +|=> )0x[0-9a-f]+' "$T/gdb" | grep -Eo '0x[0-9a-f]+')
add=$(head -1 <<<"$instructions")
serve often
rsp conditions "$add" 1000 21 <<<"$instructions"
stop_server

# Memory, pointers that lead nowhere, and what is neither true nor false: gdb stops, as it does for live programs.
in_gdb often 'break look if n->next && n->next->next == 0 && total == 12500' 'continue' 'print n->value' 'delete' \
  'break add if gone && *gone == 1' 'continue' 'print i'
printed 'Breakpoint 1, look'
printed '^\$1 = 2$'
printed 'Error in testing (breakpoint )?condition'
printed '^\$2 = 900$'
ok
