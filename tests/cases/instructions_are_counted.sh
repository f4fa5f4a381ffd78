#!/usr/bin/env bash
# 'profile --instructions' counts each instruction as often as the reference, which executes them one at a time: jump tables, calls
# through pointers, longjmp, signal handlers that change where the program goes on, faults that are tried again, string instructions,
# threads; from the start or in a stretch, in one window or in many.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >ways.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#define WAY __attribute__((noinline))
static jmp_buf back;
static volatile int sink;
static char* page;
WAY int by_table(int n) {
  switch (n % 7) {
    case 0: return n + 3;
    case 1: sink += n; return n * 5;
    case 2: return n ^ 9;
    case 3: sink -= 2; return 1;
    case 4: return n - 8;
    case 5: sink ^= n; return n / 3;
    default: return 77;
  }
}
WAY int twice(int n) { return 2 * n; }
WAY int thrice(int n) { return 3 * n; }
WAY int by_pointer(int n) { static int (*const ways[])(int) = {twice, thrice, by_table}; return ways[n % 3](n); }
WAY void jumps(int n) { if (n % 4 == 0) longjmp(back, n + 1); sink += n; }
static void skip(int s, siginfo_t* i, void* c) {
  (void)s, (void)i;
  ((ucontext_t*)c)->uc_mcontext.gregs[REG_RIP] += 2;  // over the ud2
}
static void allow(int s) { (void)s; mprotect(page, 4096, PROT_READ | PROT_WRITE); }
WAY void faults(void) {
  __asm__ volatile("incl %0\n\tud2\n\tincl %0" : "+m"(sink));
  mprotect(page, 4096, PROT_NONE);
  __asm__ volatile("incl %0\n\tmovb $1, (%1)\n\tincl %0\n\tincl %0" : "+m"(sink) : "r"(page) : "memory");
}
WAY void strings(void) {
  char from[300], *d = from;
  size_t n = sizeof from;
  __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(7) : "memory");
  sink += from[n];
}
static void* thread(void* arg) {
  for (int i = 0; i < 30; i++) sink += by_pointer(i + (int)(long)arg);
  return 0;
}
int main(void) {
  page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction a = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
  sigaction(SIGILL, &a, 0);
  signal(SIGSEGV, allow);
  pthread_t t[2];
  for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, thread, (void*)i);
  for (volatile int i = 0; i < 40; i++) {
    sink += by_table(i) + by_pointer(i);
    if (!setjmp(back)) jumps(i);
    if (i % 8 == 0) faults();
    strings();
  }
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  printf("%d\n", sink);
  return 0;
}
C
cat >compare.py <<'PY'
"""compare.py BACKSTEP STEPS RECORDING PROGRAM FROM: of each function of the program, and in all."""
import bisect, collections, json, subprocess, sys
backstep, steps, recording, program, start = sys.argv[1:]
run = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True).stdout
counted = json.loads(run(backstep, "profile", "--instructions", "--json", "--from", start, recording))
executed = collections.Counter()
lines = open(steps).read().splitlines()
assert lines.pop() == "end", "the reference has not seen all of it"
for line in lines:
    tick, _, pc, _, kind = line.split()[:5]
    if kind in "is" and int(tick) >= int(start): executed[int(pc)] += 1
symbols = sorted((int(a, 16), int(s, 16), n) for a, s, t, n in
                 (l.split() for l in run("nm", "-S", "--defined-only", program).splitlines() if len(l.split()) == 4) if t in "tT")
names = {}
starts = [s[0] for s in symbols]
ours = collections.Counter()
for pc, times in executed.items():
    i = bisect.bisect_right(starts, pc) - 1
    if i >= 0 and pc < symbols[i][0] + symbols[i][1]: ours[symbols[i][2]] += times
wrong = []
got = {f["name"]: f["self"] for f in counted["functions"]}
for name in ("main", "by_table", "twice", "thrice", "by_pointer", "jumps", "skip", "allow", "faults", "strings", "thread"):
    if ours[name] != got.get(name, 0): wrong.append((name, ours[name], got.get(name, 0)))
assert not wrong, f"(function, the reference, profile): {wrong}"
assert sum(executed.values()) == counted["samples"], (sum(executed.values()), counted["samples"])
print(counted["samples"])
PY
# Static: symbols are addresses, and there is no start-up by ld.so to be stepped through.
gcc -g -O1 -static -o ways ways.c -pthread
expect 0 "$BACKSTEP" record -q -o run ./ways
expect 0 "$BUILD/reference" run
mv "$T/out" steps
whole=$("$PYTHON" compare.py "$BACKSTEP" steps run ways 0) || fail "of the whole run"
middle=$(($(ticks_of run) / 2))
part=$("$PYTHON" compare.py "$BACKSTEP" steps run ways $middle) || fail "from the middle on"
[ "$part" -lt "$whole" ] || fail "$part of $whole instructions"
expect 0 "$BACKSTEP" checkpoints --make --every 0.001 run
again=$("$PYTHON" compare.py "$BACKSTEP" steps run ways 0) || fail "with checkpoints"
[ "$again" = "$whole" ] || fail "$again instructions instead of $whole"

expect 0 "$BACKSTEP" profile --instructions --lines run
grep -q 'INSTRUCTIONS  FUNCTION' "$T/out" || fail "the table: $(cat "$T/out")"
grep -q 'by_table (ways.c:' "$T/out" || fail "lines: $(cat "$T/out")"
expect 2 "$BACKSTEP" profile --instructions --period 10 run
says 'there is no --period'
ok
