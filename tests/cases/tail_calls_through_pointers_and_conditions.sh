#!/usr/bin/env bash
# Functions that are left by a jump through a register or a table, or by a conditional jump, return there; a `switch` does
# not leave its function. All sixteen conditions are held against what the program itself counted. A function that never
# returns has its calls listed all the same.
source "$(dirname "$0")/lib.bash"
{
  echo '.text'
  n=0
  for condition in o no b ae e ne be a s ns p np l ge le g; do
    printf '.globl f%d\n.type f%d,@function\nf%d: cmp %%esi, %%edi\n  j%s landed\n  mov $1, %%eax\n  ret\n.size f%d,.-f%d\n' \
      $n $n $n "$condition" $n $n
    n=$((n + 1))
  done
  cat <<'S'
.globl landed
.type landed,@function
landed: incl jumps(%rip)
  xor %eax, %eax
  ret
.size landed,.-landed
# Back into itself as long as there is something to count, to one of two others then.
.globl chooses
.type chooses,@function
chooses: lea table(%rip), %rdx
4: mov %edi, %eax
  and $3, %eax
  movslq (%rdx,%rax,4), %rcx
  add %rdx, %rcx
  jmp *%rcx
1: add $1, %edi
  jmp 4b
2: mov %edi, %eax
  ret
3: lea targets(%rip), %rdx
  jmp *8(%rdx)
.size chooses,.-chooses
.section .rodata
table: .long 1b-table, 1b-table, 2b-table, 3b-table
.section .data.rel.ro,"aw"
targets: .quad 0, landed
.section .note.GNU-stack,"",@progbits
S
} >leave.S
cat >tails.c <<'C'
#include <stdio.h>
#include <stdlib.h>
int jumps;
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define DECLARED(n) int f##n(int a, int b);
#define NAMED(n) f##n,
ALL(DECLARED)
int chooses(int n);
int landed(void);
__attribute__((noinline)) void ends(int status) { printf("ends %d\n", status); exit(status); }
int main(void) {
  int (*all[])(int, int) = {ALL(NAMED)};
  const int some[] = {0, 1, -1, 2, 0x7fffffff, -0x7fffffff - 1, 12345};
  for (int f = 0; f < 16; f++) {
    jumps = 0;
    for (int a = 0; a < 7; a++)
      for (int b = 0; b < 7; b++) all[f](some[a], some[b]);
    printf("f%d %d\n", f, jumps);
  }
  for (int i = 0; i < 12; i++) chooses(i);
  ends(3);
}
C
gcc -O1 -g -o tails tails.c leave.S
mkdir "$T/recordings"
expect 3 "$BACKSTEP" record -q -o "$T/recordings/tails" ./tails
./tails >natively || true
for n in {0..15}; do
  expect 0 "$BACKSTEP" calls --json "f$n" tails
  jumped=$(grep -c '"end":"jumped"' out || true)
  [ "f$n $jumped" = "$(grep "^f$n " natively)" ] || fail "f$n jumped $jumped times, and the program says: $(grep "^f$n " natively)"
  [ $((jumped + $(grep -c '"end":"returned"' out))) -eq 49 ] || fail "f$n: calls that did not return"
done
expect 0 "$BACKSTEP" count --json 'return f4' 'return f12 if $rdi == 12345' 'return chooses' 'return landed' tails
[ "$(jq -c 'map(.count)' out)" = "[49,7,12,$(($(awk '/^f/ { n += $2 } END { print n }' natively) + 3))]" ] || fail "the returns: $(cat out)"
# Entered with 0, 1 and 2 it returns (2 mod 4), with 3 it jumps to another function.
expect 0 "$BACKSTEP" calls --json chooses tails
[ "$(jq -r .end out | sort | uniq -c | tr -s ' \n' ' ')" = ' 3 jumped 9 returned ' ] || fail "chooses: $(jq -r .end out | sort | uniq -c)"
expect 0 "$BACKSTEP" calls ends tails
grep -q 'ends(status=3) did not return  from main' out || fail "a function that never returns: $(cat out)"
expect 2 "$BACKSTEP" count 'return ends' tails
says "'ends' does not return"
ok
