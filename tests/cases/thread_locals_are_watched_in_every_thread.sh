#!/usr/bin/env bash
# 'write x' of a thread-local variable is about the one that each thread has: of the program, of a library, by address; a
# thread that gets the memory of one that has ended does not count for that one.
source "$(dirname "$0")/lib.bash"
cat >lib.c <<'C'
__thread int of_lib = 5;
void lib_add(int n) { of_lib += n; }
C
cat >locals.c <<'C'
#include <pthread.h>
#include <stdio.h>
void lib_add(int);
static __thread int mine = 100;
__attribute__((noinline)) void add(int n) { mine += n; lib_add(n); }
static void *work(void *n) { for (int i = 0; i < 3; i++) add((int)(long)n); return 0; }
int main() {
  add(1);
  for (long i = 2; i < 5; i++) {  // one after the other: they get the same memory
    pthread_t thread;
    pthread_create(&thread, 0, work, (void *)i);
    pthread_join(thread, 0);
  }
  add(10);
  return mine != 111;
}
C
gcc -g -O1 -shared -fPIC -o libown.so lib.c
gcc -g -O1 -o locals locals.c -L. -lown -Wl,-rpath,"$T" -pthread
mkdir recordings
expect 0 "$BACKSTEP" record -q -o recordings/locals ./locals
for name in mine '&mine size 4'; do
  expect 0 "$BACKSTEP" log --json "write $name if \$new != 100 && \$new > 5" '{$thread} {(int)$old} {(int)$new}' locals
  says 'thread-local.*each of the 4 threads'
  start=100
  "$PYTHON" - $start <<'PY' || { cat out err >&2; fail "write $name"; }
import json, sys
start = int(sys.argv[1])
hits = [tuple(json.loads(line)["values"].values()) for line in open("out")]
want, main = [(1, start, start + 1)], start + 1
for thread, n in ((2, 2), (3, 3), (4, 4)):
    want += [(thread, start + n * i, start + n * (i + 1)) for i in range(3)]
want.append((1, main, main + 10))
assert hits == want, (hits, want)
PY
done
expect 0 "$BACKSTEP" count --json 'read mine if $thread == 3' locals
grep -q '"count":[1-9]' out || fail "reads of thread 3"
ok
