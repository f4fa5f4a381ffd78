#!/usr/bin/env bash
# Debug code that uses x87, SSE and AVX leaves the program's registers as they were, and what the CPU says of which are in use:
# with x87 in use and not, with the upper halves of the AVX registers in use and not. (Replay compares what the program writes.)
source "$(dirname "$0")/lib.bash"
need g++
grep -qw avx2 /proc/cpuinfo || skip "this CPU has no AVX2"
mkdir "$T/recordings"
cat >program.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static unsigned char before[4096] __attribute__((aligned(64))), after[4096] __attribute__((aligned(64)));
static uint64_t sum;
#define STORE(to) __asm__ volatile("xsave64 %0" : "=m"(to) : "a"(7), "d"(0) : "memory")
__attribute__((noinline)) void place(int n) {
  sum += n;  /* HERE */
}
static void add(int round) {
  for (size_t i = 0; i < 832; i++) sum = sum * 1099511628211u + after[i];
  /* What stands in front of the header may differ in what the compiler has used since. */
  if (memcmp(before + 512, after + 512, 8)) printf("round %d: other registers are in use\n", round);
}
int main(void) {
  static uint64_t values[64];
  for (int i = 0; i < 64; i++) values[i] = 0x9e3779b97f4a7c15u * (i + 1);
  for (int round = 0; round < 400; round++) {
    const int kind = round % 4;
    double x = round;
    if (kind & 1) __asm__ volatile("fldpi; fldl2t; fldl %0" : : "m"(x));
    if (kind & 2)
      __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovdqu 32*\\n(%0), %%ymm\\n\n.endr" : : "r"(values) : "memory");
    else
      __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovdqu 16*\\n(%0), %%xmm\\n\n.endr" : : "r"(values) : "memory");
    STORE(before);
    place(round);
    STORE(after);
    __asm__ volatile("vzeroupper; fninit");
    add(round);
  }
  printf("%lx\n", (unsigned long)sum);
  return 0;
}
C
gcc -g -O1 -mno-avx -o program program.c
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/program" ./program
cp out wanted
"$BACKSTEP" replay --autopilot program >out
diff wanted out >&2 || fail "a replay without debug code"
at=program.c:$(grep -n HERE program.c | cut -d: -f1)
plain='static long calls; calls++; if (calls == 400) printf("%ld calls\n", calls);'
x87='static long double total; static long calls; total += (long double)n / 3; calls++; if (calls == 400) printf("%ld calls %.3Lf\n", calls, total);'
avx='static long calls; __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0; vmovdqa %%ymm0, %%ymm15; vmovdqa %%ymm0, %%ymm7" : : : "xmm0", "xmm7", "xmm15");
  calls++; if (calls == 400) printf("%ld calls\n", calls);'
round='static long calls; unsigned csr = 0xff80; __asm__ volatile("ldmxcsr %0; fldz; fld1" : : "m"(csr)); if (++calls == 400) puts("400 calls");'
for code in "$plain" "$x87" "$avx" "$round"; do
  expect 0 "$BACKSTEP" probe --at "$at" "$code" program
  grep -q '^400 calls' out || fail "the code was called less often: $(cat out err)"
  [ ! -s err ] || fail "it says: $(cat err)"
done
grep -q 400 wanted && fail "the program prints what the test looks for"
ok
