#!/usr/bin/env bash
# 'races' finds what ThreadSanitizer finds in programs with known races, on the same lines, and nothing in those without: locks, read-write
# locks, conditions, semaphores, barriers, atomics, making threads and waiting for them, memory that is given out again.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >races.cc <<'C'
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <semaphore.h>
#include <string>
#include <unistd.h>
static std::string what;
static int value, other, guarded;
static char bytes[16];
static struct { char a, b; } pair;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, n = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem;
static std::atomic<int> counter, flag;
static int *volatile heap;
static bool is(const char *w) { return what == w; }
static void *work(void *arg) {
  const long me = (long)arg;
  if (is("plain")) value++;                                                                             // plain
  if (is("write_read") && me == 0) value = 1;                                                           // writes
  if (is("write_read") && me == 1) other = value;                                                       // reads
  if (is("two_locks")) { pthread_mutex_t *l = me ? &m : &n; pthread_mutex_lock(l); guarded++; pthread_mutex_unlock(l); } // locked
  if (is("read_locked")) { pthread_rwlock_rdlock(&rw); guarded++; pthread_rwlock_unlock(&rw); }          // rdlocked
  if (is("copy") && me == 0) memset(bytes, 1, sizeof bytes);                                            // sets
  if (is("copy") && me == 1) bytes[7] = 2;                                                              // byte
  if (is("heap_race")) (*heap)++;                                                                       // heap
  if (is("mutex")) for (int i = 0; i < 20; i++) { pthread_mutex_lock(&m); guarded++; pthread_mutex_unlock(&m); }
  if (is("rwlock")) {
    if (me) { pthread_rwlock_wrlock(&rw); guarded++; pthread_rwlock_unlock(&rw); }
    else { pthread_rwlock_rdlock(&rw); other += guarded; pthread_rwlock_unlock(&rw); }
  }
  if (is("condition")) {
    pthread_mutex_lock(&m);
    if (me) { value = 7; guarded = 1; pthread_cond_signal(&cond); }
    else { while (!guarded) pthread_cond_wait(&cond, &m); other = value; }
    pthread_mutex_unlock(&m);
  }
  if (is("semaphore")) { if (me) { value = 3; sem_post(&sem); } else { sem_wait(&sem); other = value; } }
  if (is("barrier")) { if (me) value = 3; pthread_barrier_wait(&barrier); if (!me) other = value; }
  if (is("atomic")) for (int i = 0; i < 20; i++) counter++;
  if (is("message")) { if (me) { value = 5; flag.store(1); } else { while (!flag.load()) usleep(100); other = value; } }
  if (is("spin")) { while (flag.exchange(1)) usleep(100); guarded++; flag.store(0, std::memory_order_release); }
  if (is("neighbours")) (me ? pair.a : pair.b)++;
  if (is("own_heap")) for (int i = 0; i < 20; i++) { int *p = (int *)malloc(40); p[0] = i; p[1] = p[0]; free(p); }
  return nullptr;
}
int main(int argc, char **argv) {
  what = argv[1];
  pthread_barrier_init(&barrier, nullptr, 2), sem_init(&sem, 0, 0);
  heap = (int *)calloc(1, sizeof(int));
  pthread_t t[2];
  value = other = guarded = 0;
  for (long i = 0; i < 2; i++) pthread_create(&t[i], nullptr, work, (void *)i);
  if (is("main")) value++;      // main
  if (is("main")) usleep(1000);
  for (int i = 0; i < 2; i++) pthread_join(t[i], nullptr);
  value += other + guarded + *heap + pair.a + bytes[3];
  free(heap);
  return argc - 2;
}
C
g++ -std=c++17 -g -O0 -w -pthread -o races races.cc
tsan=no
if g++ -std=c++17 -g -O0 -w -pthread -fsanitize=thread -o races.tsan races.cc 2>/dev/null; then
  if TSAN_OPTIONS=exitcode=66 ./races.tsan mutex >/dev/null 2>&1; then tsan=yes; fi
fi
# The lines of the program that race, those of each race together.
ours() {
  "$BACKSTEP" record -q -o "$T/run.$1" ./races "$1"
  "$BACKSTEP" races --json "$T/run.$1" >"$T/json" || [ $? = 1 ] || fail "$1: races"
  "$PYTHON" - "$T/json" <<'PY'
import json, sys
line = lambda side: next((f["line"] for f in side["stack"] if f.get("file", "").endswith("races.cc")), 0)
print("\n".join(sorted({" ".join(str(n) for n in sorted((line(r["first"]), line(r["second"])))) for r in json.load(open(sys.argv[1]))})))
PY
}
# … as ThreadSanitizer says: the first frame of each access that is in the program.
theirs() {
  TSAN_OPTIONS="exitcode=0 report_bugs=1 history_size=7" ./races.tsan "$1" 2>"$T/tsan" >/dev/null || true
  "$PYTHON" - "$T/tsan" <<'PY'
import re, sys
found = set()
for report in open(sys.argv[1]).read().split("WARNING: ThreadSanitizer: data race")[1:]:
    parts = re.split(r"\n\n", report)
    lines = []
    for part in parts:
        if re.match(r"\s*(\(pid=\d+\)\n)?\s*(Previous )?(atomic )?([Rr]ead|[Ww]rite) of size", part):
            m = re.search(r"races\.cc:(\d+)", part)
            lines.append(int(m.group(1)) if m else 0)
    found.add(" ".join(str(n) for n in sorted(lines[:2])))
print("\n".join(sorted(found)))
PY
}
at() { grep -n "// $1\$" races.cc | cut -d : -f 1; }
# expected WHAT LINE LINE: both agree on it; without a ThreadSanitizer that runs here, what is expected stands here.
expected() {
  want=$(printf '%s\n%s\n' "$2" "$3" | sort -n | paste -s -d ' ')
  have=$(ours "$1")
  [ "$have" = "$want" ] || { cat "$T/json" >&2; fail "$1: races on lines '$have' instead of '$want'"; }
  [ $tsan = no ] || { have=$(theirs "$1"); [ -z "$have" ] || [ "$have" = "$want" ] || fail "$1: ThreadSanitizer says '$have', not '$want'"; }
}
none() {
  have=$(ours "$1")
  [ -z "$have" ] || { cat "$T/json" >&2; fail "$1: there is no race, but on lines '$have'"; }
  [ $tsan = no ] || [ -z "$(theirs "$1")" ] || { cat "$T/tsan" >&2; fail "$1: ThreadSanitizer sees a race"; }
}
expected plain "$(at plain)" "$(at plain)"
expected write_read "$(at writes)" "$(at reads)"
expected two_locks "$(at locked)" "$(at locked)"
expected read_locked "$(at rdlocked)" "$(at rdlocked)"
expected copy "$(at sets)" "$(at byte)"
expected heap_race "$(at heap)" "$(at heap)"
for good in mutex rwlock condition semaphore barrier atomic message spin neighbours own_heap main; do none $good; done
"$BACKSTEP" races "$T/run.plain" >"$T/out" && fail "the exit status of a race"
grep -q '^race on 0x[0-9a-f]* (value)' "$T/out" || fail "the variable's name: $(cat "$T/out")"
expect 0 "$BACKSTEP" races "$T/run.mutex"
echo "ThreadSanitizer: $tsan"
ok
