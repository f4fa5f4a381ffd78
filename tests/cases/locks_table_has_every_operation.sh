#!/usr/bin/env bash
# The table 'locks' has each operation on a lock once, with the lock's name, what came of it and how long it took; the questions of docs/sql.md
# about who held a lock and in which order find what the program did.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >locking.cc <<'C'
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <shared_mutex>
#include <stdio.h>
#include <threads.h>
#include <unistd.h>
pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER, alone = PTHREAD_MUTEX_INITIALIZER;
std::mutex cpp;
std::shared_mutex shared;
std::condition_variable ready;
mtx_t c11;
sem_t tokens;
pthread_spinlock_t spin;
bool go;
volatile long work;
static void *other(void *) {
  pthread_mutex_lock(&second), pthread_mutex_lock(&first);
  pthread_mutex_unlock(&first), pthread_mutex_unlock(&second);
  { std::unique_lock<std::mutex> l(cpp); while (!go) ready.wait(l); }
  sem_post(&tokens);
  return nullptr;
}
int main() {
  sem_init(&tokens, 0, 0), mtx_init(&c11, mtx_plain), pthread_spin_init(&spin, 0);
  pthread_mutex_lock(&first), pthread_mutex_lock(&second);
  for (int i = 0; i < 1000; i++) work = work + 1;
  pthread_mutex_unlock(&second), pthread_mutex_unlock(&first);
  pthread_t t;
  pthread_create(&t, nullptr, other, nullptr);
  usleep(20000);
  { std::lock_guard<std::mutex> l(cpp); go = true; }
  ready.notify_all();
  sem_wait(&tokens);
  pthread_join(t, nullptr);
  mtx_lock(&c11), mtx_unlock(&c11);
  pthread_spin_lock(&spin), pthread_spin_unlock(&spin);
  { std::shared_lock<std::shared_mutex> l(shared); }
  { std::unique_lock<std::shared_mutex> l(shared); }
  pthread_mutex_lock(&alone);
  return pthread_mutex_trylock(&alone) != 16;
}
C
g++ -std=c++20 -g -O1 -pthread -o locking locking.cc
expect 0 "$BACKSTEP" record -q -o run ./locking
"$BACKSTEP" sql run --csv "SELECT thread, kind, operation, result, name FROM locks WHERE name NOT LIKE '\_rtld%' ESCAPE '\\' ORDER BY tick" | tail -n +2 | sort >have
sort >want <<'END'
1,mutex,lock,0,first
1,mutex,lock,0,second
1,mutex,unlock,0,second
1,mutex,unlock,0,first
2,mutex,lock,0,second
2,mutex,lock,0,first
2,mutex,unlock,0,first
2,mutex,unlock,0,second
2,mutex,lock,0,cpp
2,condition,wait,0,ready
2,mutex,unlock,0,cpp
2,semaphore,post,0,tokens
1,mutex,lock,0,cpp
1,mutex,unlock,0,cpp
1,condition,broadcast,0,ready
1,semaphore,wait,0,tokens
1,mutex,lock,0,c11
1,mutex,unlock,0,c11
1,spinlock,lock,0,spin
1,spinlock,unlock,0,spin
1,spinlock,unlock,0,spin
1,rwlock,rdlock,0,shared
1,rwlock,unlock,0,shared
1,rwlock,wrlock,0,shared
1,rwlock,unlock,0,shared
1,mutex,lock,0,alone
1,mutex,trylock,16,alone
END
same want have "the operations are not those of the program"
[ "$("$BACKSTEP" sql run --csv "SELECT w.mutex = l.lock FROM locks w JOIN locks l ON l.name = 'cpp' WHERE w.kind = 'condition' AND w.operation = 'wait' LIMIT 1" | tail -n 1)" = 1 ] || fail "the mutex of a wait"
"$BACKSTEP" sql run --csv "SELECT stack FROM locks WHERE name = 'first' AND operation = 'lock' AND thread = 2" | seen 'other (locking.cc:19)' || fail "a stack"
# (The first unlock of the spinlock is pthread_spin_init, which is the same code in glibc.)
# The queries of the documentation, as they stand there.
query() {
  "$PYTHON" - "$SRC/docs/sql.md" "$1" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
print(re.search(re.escape(sys.argv[2]) + r".*?```sql\n(.*?)```", text, re.S).group(1))
PY
}
"$BACKSTEP" sql run --csv "$(query 'Who held a mutex longest')" >held
sed -n 2p held | seen '^[0-9]\{4,\},\(first\|second\),1,@' || fail "who held a lock longest: $(cat held)"
"$BACKSTEP" sql run --csv "$(query 'taken in both orders')" | tail -n 1 | seen '^\(first,second\|second,first\)$' || fail "inverted locks"
ok
