#!/usr/bin/env bash
# Queries go, forwards and backwards from random moments, to those matches that 'backstep log' lists, with their conditions
# evaluated in Python: entries, exits, lines, stores, loads, calls and signals, by values, stacks, functions and lines; in one
# window and in many. Blocks are those that the instructions' own counts say.
source "$(dirname "$0")/lib.bash"
need gcc objdump
cat >walk.c <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
long total, other;
int __attribute__((noinline)) leaf(int n) {
  total += n;
  if (n & 1) other = total;
  return n * 2;
}
int __attribute__((noinline)) left(int n) {
  int r = leaf(n) + 1;
  return r > 20 ? leaf(r - 20) : r;
}
int __attribute__((noinline)) right(int n) {
  int r = n > 2 ? right(n - 2) : 0;
  return leaf(n + 100) + r;
}
int __attribute__((noinline)) choose(int k) {
  switch (k) {
    case 0: total++; /* fall through */
    case 1: total += 2; /* fall through */
    case 2: total += 3; break;
    case 3: total += 4; /* fall through */
    case 4: total += 5; break;
    case 5: total += 6; break;
    default: total--;
  }
  return (int)total;
}
void on_signal(int number) { other += number; }
void* work(void* p) {
  for (int i = 0; i < 12; i++) left(i);
  return p;
}
int main(void) {
  pthread_t t;
  signal(SIGUSR1, on_signal);
  pthread_create(&t, 0, work, 0);
  for (int i = 0; i < 20; i++) {
    left(i);
    if (i % 3 == 0) right(i);
    choose(i % 7);
    if (i % 8 == 4) raise(SIGUSR1);
    if (i % 5 == 0) printf("%d %ld\n", i, total), fflush(stdout);
  }
  pthread_join(t, 0);
  return total < 0;
}
C
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
agree() {  # FLAGS SEED: queries of a program that was compiled so
  gcc -g "$1" -fno-inline -pthread -o walk walk.c
  rm -rf run
  "$BACKSTEP" record -q -o run ./walk >/dev/null
  "$PYTHON" "$SRC/tests/cases/query_walks.py" run "$2" || fail "$1: queries do not agree with logs"
}
agree -O0 1
BACKSTEP_WINDOW=300 agree -O2 2
ok
