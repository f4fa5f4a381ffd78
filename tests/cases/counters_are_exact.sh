#!/usr/bin/env bash
# Passes that translated code counts by itself, in registers and (there are not so many) in memory: with threads, signals,
# faults at the counted instruction, code that is written anew, and a program that needs the registers itself.
source "$(dirname "$0")/lib.bash"
cat >counted.c <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
static volatile long x;
static char *page;
#define F(n) __attribute__((noinline)) void f##n(void) { x += n; }
F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29)
static void (*const all[20])(void) = {f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                                      f20, f21, f22, f23, f24, f25, f26, f27, f28, f29};
static void on_fault(int signo) { mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void on_alarm(int signo) { f10(); }
__attribute__((noinline)) void store(char *to) { *to = 1; }
static void *work(void *unused) {
  for (int i = 0; i < 20; i++)
    for (int k = 0; k < 300 * (i + 1); k++) all[i]();
  return 0;
}
int main(int argc, char **argv) {
  page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  signal(SIGSEGV, on_fault);
  signal(SIGALRM, on_alarm);
  struct itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, 0);
  for (int i = 0; i < 1000; i++) {
    if (i % 10 == 0) mprotect(page, 4096, PROT_READ);
    store(page);
  }
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
  work(0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  /* ret, many times, from a page that is written anew each time */
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 500; i++) {
    memcpy(code, "\x90\xc3", 2);
    ((void (*)(void))code)();
    f11();
  }
  if (argc > 1) __asm__ volatile("vpaddq %%xmm16, %%xmm17, %%xmm18" ::);
  work(0);
  printf("%p %ld\n", (void *)code, x);
  return 0;
}
C
gcc -O1 -g -pthread counted.c -o counted
wanted=()
for ((n = 10; n < 30; n++)); do wanted+=("call f$n"); done
check() {  # what `count` says of the recording
  "$BACKSTEP" count --json "${wanted[@]}" 'call store' 'call on_alarm' "pc $code" recording >out ||
    fail "it could not be counted"
  "$PYTHON" - "$1" <<'PY' || exit 1
import json, sys
counts = {c["spec"]: c["count"] for c in json.load(open("out"))}
want = {f"call f{10 + i}": 5 * 300 * (i + 1) for i in range(20)}
want["call f10"] += counts["call on_alarm"]
want["call f11"] += 500
want["call store"] = 1100  # its first instruction faults 100 times, and is begun again behind the handler
for spec, n in want.items():
    if counts[spec] != n: sys.exit(f"{sys.argv[1]}: {spec} is {counts[spec]} instead of {n}")
pc = [n for spec, n in counts.items() if spec.startswith("pc ")]
if pc != [500]: sys.exit(f"{sys.argv[1]}: the code that is written anew was executed {pc} times instead of 500")
PY
}
try() {
  rm -rf recording
  expect 0 "$BACKSTEP" record -q -o recording "$T/counted" "$@"
  code=$(cut -d' ' -f1 out)
  check "in one window"
  BACKSTEP_WINDOW=20000 check "in many windows"
  BACKSTEP_LEG=1e-4 check "with many stops"
}
try
if grep -q avx512vl /proc/cpuinfo; then try evex; fi
ok
