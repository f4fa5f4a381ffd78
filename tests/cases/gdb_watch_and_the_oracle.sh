#!/usr/bin/env bash
# Watchpoints on a global, the heap, the stack, single bytes and a whole array, written by the program, by the kernel and by a
# signal handler: forwards and backwards they stop exactly where an independent single-stepper saw the bytes change.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
oracle=$BUILD/oracle
[ -x "$oracle" ] || fail "the oracle was not built"
# Static and at a fixed address, so that code lies where it lies natively; no library code that depends on the CPU.
cat >"$T/writes.c" <<'C'
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#define watch(p, n) syscall(9999, (p), (long)(n))
struct item { int a; char b[8]; struct item *next; };
int global;
unsigned char bytes[64];
struct { short x, y; } pair;
void on(int s) { global ^= s; }
__attribute__((noinline)) void up(int *p, int n) { *p += n; }
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) {
  volatile long local = 1;
  int ends[2];
  struct item *item = malloc(sizeof *item);
  item->a = 0, item->next = item;
  signal(SIGUSR1, on);
  if (pipe(ends)) return 1;
  watch(&global, sizeof global);
  watch(&item->a, sizeof item->a);
  watch((void *)&local, sizeof local);
  watch(bytes, sizeof bytes);
  watch(&pair.y, 1);
  for (int i = 0; i < 20; i++) {
    up(&global, i);
    up(&item->next->a, i & 3);
    if (i % 3 == 0) local += fib(5);
    bytes[i * 7 % 64] = i;
    *(int *)&pair = i << 14;
    pair.x++;
    if (i % 5 == 0) raise(SIGUSR1);
    if (i % 4 == 1 && (write(ends[1], &i, 3) != 3 || read(ends[0], bytes + 30, 3) != 3)) return 2;
    int old = i;
    __asm__ volatile("lock xaddl %0, %1" : "+r"(old), "+m"(global));
    __asm__ volatile("movups %%xmm0, %0" : "=m"(bytes[40]));
    __asm__ volatile("pxor %%xmm0, %%xmm0; paddb %0, %%xmm0" : : "m"(bytes[0]) : "xmm0");
  }
  watch(0, 0);
  return 0;
}
C
gcc -g -O1 -static -no-pie -fno-tree-vectorize -o "$T/writes" "$T/writes.c"
recorded writes 0
if ! "$oracle" --markers --watch -- "$T/writes" >"$T/oracle" 2>"$T/err"; then
  grep -q ptrace "$T/err" && skip "ptrace is not permitted here: $(cat "$T/err")"
  fail "the oracle cannot run it: $(cat "$T/err")"
fi
"$BACKSTEP" dump --json "$T/rec-writes" >"$T/dump"
read -r -a arguments < <("$PYTHON" - "$T/dump" <<'P'
import json, sys
marks = [e for e in map(json.loads, open(sys.argv[1])) if e["kind"] == "syscall" and e["nr"] == 9999]
print(marks[0]["tick"], marks[0]["pc"], *(n for e in marks[:-1] for n in e["args"][:2]))
P
)
serve writes
rsp oracle "${arguments[@]}" <"$T/oracle"
stop_server
ok
