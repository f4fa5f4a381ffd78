#!/usr/bin/env bash
# Thread-local variables of libraries are right in every thread and at every moment, or said not to be there: of libraries
# that are linked, opened and closed, with numbers that are used again, in both dialects of the ABI, of both C libraries.
source "$(dirname "$0")/lib.bash"
cat >early.c <<'C'
__thread int in_early = 1;
static __thread long hidden = 7;
long early(int v) { hidden += v; return (in_early += v) + hidden; }
C
cat >later.c <<'C'
__thread int pad[100];
__thread int opened_later = 3;
__thread struct { int a; char name[8]; } st = {1, "one"};
int later(int v) { st.a += v; return opened_later += v; }
C
cat >other.c <<'C'
__thread int pad2[50];
__thread int in_other = 30;
int other(int v) { return in_other += v; }
C
cat >prog.c <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
extern __thread int in_early;
long early(int);
__thread int mine = 5;
int (*later)(int), (*other)(int);
pthread_barrier_t closing, opened;
__attribute__((noinline)) void mark(int who) { __asm__ volatile("" : : "r"(who) : "memory"); }
void *open_it(const char *file, const char *name, int (**f)(int)) {
  void *handle = dlopen(file, RTLD_NOW);
  if (!handle || !(*f = (int (*)(int))dlsym(handle, name))) abort();
  return handle;
}
void *run(void *a) {
  long n = (long)a;
  mine += n;
  early(n);
  mark(1);
  if (n == 2) later(10 * n);
  mark(2);
  pthread_barrier_wait(&closing);
  pthread_barrier_wait(&opened);
  mark(3);
  if (n == 3) other(n);
  mark(4);
  return 0;
}
int main(void) {
  pthread_barrier_init(&closing, 0, 3);
  pthread_barrier_init(&opened, 0, 3);
  mark(0);
  void *handle = open_it("./liblater.so", "later", &later);
  mark(10);
  later(100);
  mark(11);
  pthread_t t[2];
  for (long i = 2; i < 4; i++) pthread_create(&t[i - 2], 0, run, (void *)i);
  pthread_barrier_wait(&closing);
  dlclose(handle);
  open_it("./libother.so", "other", &other);
  mark(12);
  pthread_barrier_wait(&opened);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  mark(13);
  other(1);
  mark(14);
  return mine != 5;
}
C
mkdir recordings
# made NAME COMPILER FLAG...: a folder with the program and its libraries, and its recording.
made() {
  local name=$1 compiler=$2
  shift 2
  mkdir "$name"
  for library in early later other; do
    "$compiler" -g -O1 -shared -fPIC "$@" -o "$name/lib$library.so" $library.c
  done
  "$compiler" -g -O1 "$@" -o "$name/prog" prog.c -L"$name" -learly -Wl,-rpath,'$ORIGIN' -pthread -ldl
  (cd "$name" && expect 0 "$BACKSTEP" record -q -o "$T/recordings/$name" ./prog)
}

# check NAME WHEN: the values at each mark. A thread has its block of a library that was opened when it first uses that (lazy), at once (static), or
# as the C library likes (either).
check() {
  expect 0 "$BACKSTEP" log --json 'call mark' \
    '{(int)$rdi} {mine} {in_early} {hidden} {opened_later} {st.a} {st.name} {in_other}' "$1"
  "$PYTHON" - "$2" <<'PY' || { cat out >&2; fail "$1: values"; }
import json, sys
lazy = sys.argv[1] == "lazy"
def untouched(first):
    return [first] if sys.argv[1] == "static" else [None] if lazy else [None, first]
def gone(v):
    return isinstance(v, dict) and ("not allocated" in v["unavailable"] or "cannot read" in v["unavailable"])
want = {  # thread, mark: mine, in_early, hidden, opened_later, st.a, in_other; None: not there; ...: there or not
    (1, 0): (5, 1, 7, None, None, None), (1, 10): (5, 1, 7, untouched(3), untouched(1), None),
    (1, 11): (5, 1, 7, 103, 101, None), (1, 12): (5, 1, 7, ..., ..., untouched(30)),
    (1, 13): (5, 1, 7, ..., ..., untouched(30)), (1, 14): (5, 1, 7, ..., ..., 31),
    (2, 1): (7, 3, 9, untouched(3), untouched(1), None), (2, 2): (7, 3, 9, 23, 21, None),
    (2, 3): (7, 3, 9, ..., ..., untouched(30)), (2, 4): (7, 3, 9, ..., ..., untouched(30)),
    (3, 1): (8, 4, 10, untouched(3), untouched(1), None),
    (3, 2): (8, 4, 10, untouched(3), untouched(1), None),
    (3, 3): (8, 4, 10, ..., ..., untouched(30)), (3, 4): (8, 4, 10, ..., ..., 33),
}
seen = set()
for line in open("out"):
    hit = json.loads(line)
    v = list(hit["values"].values())
    key = (hit["thread"], v[0])
    for got, wanted in zip(v[1:6] + v[7:8], want[key]):
        # Behind dlclose: gone, or, where that does nothing, what it was.
        wanted = [None, 103, 101, 23, 21, 3, 1] if wanted is ... else wanted if isinstance(wanted, list) else [wanted]
        ok = None in wanted if gone(got) else got in wanted
        assert ok, (key, got, wanted, v)
    if lazy and key[1] in (12, 13, 14, 3, 4): assert gone(v[4]) and gone(v[5]), (key, v)
    seen.add(key)
assert seen == set(want), seen ^ set(want)
PY
}

# writes NAME VARIABLE: thread, old and new value of each store, but for those that fill in the block, as "1:3>103 2:3>23".
writes() {
  expect 0 "$BACKSTEP" log "change $2 if \$old" '{$thread}:{(int)$old}>{(int)$new}' "$1"
  sed 's/.* //' out | sort | tr '\n' ' '
}

check_writes() {
  [ "$(writes "$1" in_early)" = '2:1>3 3:1>4 ' ] || fail "$1: write in_early: $(cat out)"
  [ "$(writes "$1" opened_later)" = '1:3>103 2:3>23 ' ] || fail "$1: write opened_later: $(cat out)"
  [ "$(writes "$1" in_other)" = '1:30>31 3:30>33 ' ] || fail "$1: write in_other: $(cat out)"
  expect 0 "$BACKSTEP" count 'call mark if opened_later == 103 && (int)$rdi == 11' 'write in_other if $thread == 3' "$1"
  grep -q '^ *1 .*call mark if' out || fail "$1: a condition: $(cat out)"
  grep -q '^ *1 .*write in_other' out || fail "$1: a condition of a store: $(cat out)"
}

made plain gcc -mtls-dialect=gnu
check plain lazy
check_writes plain
# What of a session's present: the thread that has it, one that has not, and why.
expect 0 "$PYTHON" - <<'PY'
import os, sys
sys.path.insert(0, os.environ["SRC"] + "/python")
import backstep
with backstep.open("plain") as s:
    s.forward("call mark if (int)$rdi == 2 && $thread == 2")
    assert s.value("opened_later") == 23
    s.goto("start")
    s.forward("call mark if (int)$rdi == 2 && $thread == 3")
    v = s.explain("opened_later")
    assert v.value is None and v.text == "<not allocated>" and "has not used" in v.why, v
    s.backward("call mark if (int)$rdi == 11")
    assert s.value("opened_later") == 103 and s.value("st") == {"a": 101, "name": "one"}, s.explain("st")
PY

# Debug code has them; where there is none, a line says so and nothing is printed.
expect 0 "$BACKSTEP" probe --at mark 'printf("%d\n", opened_later);' plain
[ "$(tr '\n' ' ' <out)" = '103 23 ' ] || fail "debug code: $(cat out)"
says "'opened_later' has no place in memory here"
# gdb, too, and not another library's block that the thread had under the same number. It finds a library that was opened
# by a relative path, wherever it runs.
source "$SRC/tests/cases/gdb.bash"
ln -s recordings/plain rec-plain
in_gdb plain 'goto start' 'event call mark if (int)$rdi == 3 && $thread == 2' 'print in_early' 'print in_other' \
  'goto start' 'event call mark if (int)$rdi == 4 && $thread == 3' 'print in_other' 'info threads'
printed '^\$1 = 3$'
printed 'Cannot find thread-local storage.*libother'
printed '^\$2 = 33$'

# Two of one library: the variable is that of the copy whose code it is asked in. And a program that the linker was told to run.
cat >plain/twice.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
int main(void) {
  long (*a)(int) = (long (*)(int))dlsym(dlmopen(LM_ID_NEWLM, "./libearly.so", RTLD_NOW), "early");
  long (*b)(int) = (long (*)(int))dlsym(dlopen("./libearly.so", RTLD_NOW), "early");
  return a(5) + b(1) + a(1) != 18 + 10 + 20;
}
C
gcc -g -o plain/twice plain/twice.c -ldl
(cd plain && expect 0 "$BACKSTEP" record -q -o "$T/recordings/twice" ./twice)
expect 0 "$BACKSTEP" log 'return early' '{in_early} {hidden}' twice
[ "$(awk '{print $3, $4}' out | tr '\n' ' ')" = '6 12 2 8 7 13 ' ] || fail "two copies: $(cat out)"
(cd plain && expect 0 "$BACKSTEP" record -q -o "$T/recordings/linked" /lib64/ld-linux-x86-64.so.2 ./prog)
check linked lazy

# The program's own, however it is linked.
cat >own.c <<'C'
#include <pthread.h>
__attribute__((aligned(64))) __thread int aligned = 3;
__thread char c = 'x';
__thread long zero;
__attribute__((noinline)) void mark(int n) { __asm__ volatile("" : : "r"(n)); }
void *run(void *a) { zero = (long)a, aligned += 2, mark(2); return 0; }
int main(void) {
  pthread_t t;
  zero = 5, mark(1);
  pthread_create(&t, 0, run, (void *)9), pthread_join(t, 0);
  mark(3);
  return 0;
}
C
for way in -pie -no-pie -static -static-pie; do
  gcc -g -O1 $way -o own own.c -pthread
  expect 0 "$BACKSTEP" record -q -o "recordings/own$way" ./own
  expect 0 "$BACKSTEP" log 'call mark' '{$thread} {aligned} {(int)c} {zero}' "own$way"
  [ "$(sed 's/.*  //' out | tr '\n' ';')" = '1 3 120 5;2 5 120 9;1 3 120 5;' ] || fail "$way: $(cat out)"
done

made descriptors gcc -mtls-dialect=gnu2
check descriptors either
check_writes descriptors

if have musl-gcc; then
  made musl musl-gcc -mtls-dialect=gnu
  check musl static
  check_writes musl
  made musl2 musl-gcc -mtls-dialect=gnu2
  check musl2 static
fi
ok
