#!/usr/bin/env bash
# Functions of a debug module are called at places of the recorded run: they read its registers and memory, print, and keep
# state in containers and floating point; the run stays what it was, with vector registers, x87 and threads, however ticks
# are counted and however small the code cache is.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/debug_module.bash"
cat >program.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
struct node { int value; struct node *next; };
double sum;
long double wide = 1;
__attribute__((noinline)) void inner(int i, struct node *n, double x) {
  __asm__ volatile("" ::: "memory");
  sum += x * n->value;
  wide = wide * 1.000001L + i;
}
static void *work(void *from) {
  struct node last = {7, 0}, first = {1, &last};
  for (long i = 0; i < 400; i++) {
    first.value = (int)(i * 3 + (long)from);
    inner((int)i, &first, i / 7.0);
  }
  return 0;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, work, (void *)1000);
  work(0);
  pthread_join(thread, 0);
  printf("%.9f %.9Lf\n", sum, wide);
  return 0;
}
C
gcc -O2 -g -no-pie -pthread program.c -o program
cat >module.cc <<'C'
#include "debug_module.h"
#include <iostream>
#include <map>
#include <set>
#include <string>
struct node { int value; node *next; };
static std::map<std::string, long> sums;
static std::set<unsigned long> threads;
static double total;
static long double precise = 0.5L;
PLACE(at_inner) {
  auto *n = reinterpret_cast<const node *>(r->gpr[6]);
  int i = static_cast<int>(r->gpr[7]);
  sums[i % 2 ? "odd" : "even"] += n->value + n->next->value;
  threads.insert(r->thread);
  double x;
  std::memcpy(&x, r->vector, sizeof x);
  total += x;
  precise = precise * 1.0000001L + i;
  if (i % 100 == 0) printf("%lu: %d %d %.3f\n", r->thread, i, n->value, x), fflush(stdout);
}
extern "C" void module_finish(const backstep_registers *) {
  std::cout << "even " << sums["even"] << " odd " << sums["odd"] << " threads " << threads.size() << std::endl;
  printf("%.3f %.1Lf\n", total, precise), fflush(stdout);
}
C
make_module module.cc
expect 0 "$BACKSTEP" record -q --check=deep -o recording "$T/program"
place=$(address program inner)=$(address module at_inner):v
"$PYTHON" - >want <<'PY'
even = odd = 0
x = 0.0
for start in 0, 1000:
    for i in range(400):
        v = i * 3 + start + 7
        if i % 2: odd += v
        else: even += v
        x += i / 7
print(f"even {even} odd {odd} threads 2")
print(f"{x:.3f}")
PY
check() {  # options
  probed "$@" recording module "$place"
  says '^calls 800$'
  [ "$(grep -c ': ' out)" = 8 ] || fail "with '$*' it printed: $(cat out)"
  grep -q '^1: 300 900 42.857$' out || fail "with '$*' a line is missing: $(cat out)"
  tail -n 2 out | cut -d' ' -f1-6 | sed '2s/ .*//' >got
  cmp -s got want || fail "with '$*' the sums are $(cat got), not $(cat want)"
}
check
cp out first
check --memory
cmp out first || fail "with ticks in memory the output is another one"
check --small
cmp out first || fail "with a small cache the output is another one"
# In windows, each with debug code of its own.
BACKSTEP_WINDOW=2000 probed --parallel recording module "$place"
says '^calls 800$'
[ "$(grep -c ': ' out)" = 8 ] || fail "in windows it printed: $(cat out)"
ok
