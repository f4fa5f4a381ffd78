#!/usr/bin/env bash
# Conditions that translated code evaluates by itself (registers, memory, constants, arithmetic, && and ||) hold where the
# interpreter says so. It is made to by '$tick >= 0', which translated code knows nothing of.
source "$(dirname "$0")/lib.bash"
cat >asked.c <<'C'
#include <stdio.h>
struct node { char c; short s; int i; long l; unsigned u; struct node *next; };
struct node nodes[16];
static volatile unsigned long sum;
int limit = 5;
__attribute__((noinline)) void visit(struct node *n, int i, unsigned u, long l) {
  sum += i + u + l + (n ? n->i : 0);
}
/* rax, rcx and rdx have values of their own here, and so do the flags */
__attribute__((noinline)) unsigned long mix(unsigned long a, unsigned long b, unsigned long c, unsigned long d);
__asm__(".globl mix\n.type mix, @function\nmix:\n"
        "mov %rdi, %rax\n xor %rsi, %rax\n lea 7(%rdx), %rcx\n mov %rdx, %rdx\n cmp %rsi, %rdi\n"
        "mix_here: adc %rcx, %rax\n setl %cl\n movzx %cl, %ecx\n add %rcx, %rax\n add %rdx, %rax\n ret\n.size mix, . - mix\n");
int main() {
  for (int k = 0; k < 16; k++) {
    struct node n = {(char)(k * 37), (short)(k * 9001), k * 1000003 - 8000000, (long)k * -77777777777L, k * 400000000u,
                     k % 3 ? &nodes[(k * 7) % 16] : 0};
    nodes[k] = n;
  }
  unsigned long x = 88172645463325252ul;
  for (int i = 0; i < 4000; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    /* now and then a pointer to nothing, to a page that is not there, into what is not the program's */
    struct node *n = i % 101 == 0   ? 0
                     : i % 103 == 0 ? (struct node *)0x123456789000
                     : i % 107 == 0 ? (struct node *)0x60000100
                     : i % 109 == 0 ? (struct node *)0x7ff00000
                     : i % 113 == 0 ? (struct node *)0x8000000000000000
                                    : &nodes[x % 16];
    if (i % 101 && i % 103 && i % 107 && i % 109 && i % 113) visit(n, (int)x, (unsigned)(x >> 20), (long)x);
    else visit(0, 1, 2, (long)n);
    sum += mix(x, x >> 32, x & 0xff, i);
  }
  printf("%lu\n", sum);
  return 0;
}
C
gcc -O1 -g asked.c -o asked
expect 0 "$BACKSTEP" record -q -o recording "$T/asked"
wanted=$(cat out)
asked() {  # what `count` says, numbers and what it could not evaluate
  "$BACKSTEP" count "$1" recording 2>&1 | sed -E 's/  call.*|  pc.*//; s/ \&\& \$tick >= 0//'
}
same_answers() {  # PLACE CONDITION
  asked "$1 if $2" >in-code
  asked "$1 if ($2) && \$tick >= 0" >in-words
  grep -q '[0-9]' in-words || fail "no answer to '$1 if $2': $(cat in-words)"
  sed -i -E 's/[^0-9,]*([0-9,]+).*/\1/' in-code in-words
  same in-words in-code "'$1 if $2'"
  cat in-code >>answers
}
: >answers
for condition in '$arg1 == 1' '$arg1 < 0' 'i > 1000' 'i <= -1000' 'u > 3000000000' 'u < 4294967' 'l == 0' 'l != 2 && i < u' \
  'i > limit && i < 1000000' 'i == 1 || u > 4000000000' '!(i & 255)' '(i ^ u) == 0' '~i < 7' 'i * 3 - u > l' 'u * u == 1' \
  'n->c == 37' 'n->s < 0' 'n->i > 0' 'n->l < -77777777777' 'n->u >= 2800000000' 'n->next->i == 3000021' \
  'n->next && n->next->c > 0' '((struct node*)l)->i == 7' '*(long*)l != 0' '*(char*)(l + 3) == 1' 'n && n->i < 0 && i > 0' \
  'limit == 5' 'limit > 5' 'sum % 3 == 0' 'n == &nodes[3]' 'i >> 3 == 1' '$rsp < 0' '$rip == 0'; do
  same_answers 'call visit' "$condition"
done
for condition in '$rax == 0' '$rax > $rcx' '$rcx - $rdx == 7' '$rcx - $rdx != 7' '$rdx > $rdi && $rax < 0' '$rdi - $rsi < 0' '$r9 == 3'; do
  same_answers 'pc mix_here' "$condition"
  same_answers 'call mix' "$condition"
done
[ "$(sort -u answers | wc -l)" -gt 8 ] || fail "the answers are all the same: $(cat answers)"
# All that was not asked for went on as it did when it was recorded, or the replay would have said so.
[ "$wanted" ] || fail "it printed nothing"
ok
