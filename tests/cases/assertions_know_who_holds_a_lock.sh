#!/usr/bin/env bash
# 'only the holder of lock M writes X': lock, trylock and timedlock that succeed and that do not, recursive locks, a condition
# variable that gives the lock back meanwhile, locks by pointer and in C++; writes by who has no lock, and by who has another one.
source "$(dirname "$0")/lib.bash"
need gcc g++
cat >locks.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, *pm = &m, wrong = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t twice = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
sem_t go, gone;
long good, tried, timed, recursive, waited, stolen, unlocked, with_wrong;
int flag;
void* thread(void* p) {
  pthread_mutex_lock(&m);
  sem_post(&gone);
  while (!flag) pthread_cond_wait(&ready, &m);
  waited++;
  pthread_mutex_unlock(&m);
  sem_wait(&go);
  if (pthread_mutex_trylock(&m) != 0) stolen++;  // main has it
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (pthread_mutex_timedlock(&m, &now) != 0) stolen++;
  sem_post(&gone);
  return p;
}
int main(void) {
  pthread_t t;
  sem_init(&go, 0, 0), sem_init(&gone, 0, 0);
  pthread_create(&t, 0, thread, 0);
  sem_wait(&gone);
  pthread_mutex_lock(&m);  // the other one waits for the condition
  flag = 1;
  good++;
  pthread_cond_signal(&ready);
  pthread_mutex_unlock(&m);
  while (pthread_mutex_lock(&m), !waited) pthread_mutex_unlock(&m);
  sem_post(&go);
  sem_wait(&gone);
  good++;
  pthread_mutex_unlock(&m);
  pthread_join(t, 0);
  if (pthread_mutex_trylock(&m) == 0) tried++, pthread_mutex_unlock(&m);
  struct timespec later;
  clock_gettime(CLOCK_REALTIME, &later);
  later.tv_sec += 1000;
  if (pthread_mutex_timedlock(&m, &later) == 0) timed++, pthread_mutex_unlock(&m);
  pthread_mutex_lock(&twice), pthread_mutex_lock(&twice), pthread_mutex_unlock(&twice);
  recursive++;
  pthread_mutex_unlock(&twice);
  unlocked++;
  pthread_mutex_lock(&wrong), with_wrong++, pthread_mutex_unlock(&wrong);
  printf("%ld %ld\n", good + tried + timed + recursive + waited, stolen + unlocked + with_wrong);
}
C
gcc -g -O1 -pthread -o locks locks.c
"$BACKSTEP" record -q -o run ./locks >out
[ "$(cat out)" = "6 4" ] || fail "it does something else: $(cat out)"
for x in good tried timed waited; do
  for m in m pm '&m'; do
    expect 0 "$BACKSTEP" assert "only the holder of lock $m writes $x" run
    grep -Eq "\([12] times\)" "$T/out" || { cat "$T/out" >&2; fail "$x is not checked"; }
  done
done
expect 0 "$BACKSTEP" assert 'only the holder of lock twice writes recursive' run
expect 1 "$BACKSTEP" assert 'only the holder of lock m writes stolen; only the holder of lock m writes unlocked; only the holder of lock m writes with_wrong; only the holder of lock wrong writes with_wrong' run
[ "$(grep -c '^violated' "$T/out")" = 3 ] || { cat "$T/out" >&2; fail "three have no lock"; }
grep -q 'thread 2 writes stolen (0 -> 1) without the lock m, which thread 1 holds' "$T/out" || { cat "$T/out" >&2; fail "who holds it"; }
grep -q 'thread 1 writes unlocked (0 -> 1) without the lock m, which nobody holds' "$T/out" || { cat "$T/out" >&2; fail "nobody holds it"; }
# Who holds it at the beginning of a stretch is known from what was before.
at=$("$BACKSTEP" log 'write good' run | sed -n '2s/ .*//p')
expect 0 "$BACKSTEP" assert 'only the holder of lock m writes good' --from "$at" run
grep -q '(1 times)' "$T/out" || { cat "$T/out" >&2; fail "the second write only"; }

cat >guarded.cc <<'C'
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
std::mutex m;
long sum, loose;
int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++)
    threads.emplace_back([] {
      for (int k = 0; k < 50; k++) {
        { std::lock_guard<std::mutex> guard(m); sum++; }
        loose++;
      }
    });
  for (auto& t : threads) t.join();
  return sum != 150;
}
C
g++ -g -O0 -pthread -o guarded guarded.cc
"$BACKSTEP" record -q -o guarded-run ./guarded
expect 1 "$BACKSTEP" assert 'only the holder of lock m writes sum; only the holder of lock m writes loose' guarded-run
grep -q '^holds .*writes sum  (150 times)' "$T/out" && grep -q '^violated .*writes loose  (150 of 150 times)' "$T/out" ||
  { cat "$T/out" >&2; fail "std::mutex"; }
ok
