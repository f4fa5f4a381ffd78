#!/usr/bin/env bash
# Thread-local variables, of the program, of a library, of one that was opened later, in every thread; libraries and mappings as
# gdb shows them.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
echo '__thread int in_library = 1; int library(int v) { return in_library += v; }' |
  gcc -g -shared -fPIC -xc -o "$T/libearly.so" -
echo '__thread int opened_later = 3; int later(int v) { return opened_later = v; }' |
  gcc -g -shared -fPIC -xc -o "$T/liblater.so" -
compile locals -L"$T" -learly -Wl,-rpath,"$T" -pthread -ldl <<C
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
__thread int mine = 5;
static __thread long zeroed;
extern __thread int in_library;
int library(int);
int (*later)(int);
pthread_barrier_t barrier;
void stop(int who) { printf("%d %d %ld\n", who, mine, zeroed); fflush(stdout); }
void *run(void *a) {
  mine = 100; zeroed = 101; library(102); later(104);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return a;
}
int main(void) {
  pthread_t t;
  stop(0);
  later = (int (*)(int))dlsym(dlopen("$T/liblater.so", RTLD_NOW), "later");
  pthread_barrier_init(&barrier, 0, 2);
  pthread_create(&t, 0, run, 0);
  mine = 200; zeroed = 201; in_library = 202;
  pthread_barrier_wait(&barrier);
  stop(1);
  later(204);
  stop(2);
  pthread_barrier_wait(&barrier);
  pthread_join(t, 0);
  return 0;
}
C
recorded locals 0
in_gdb locals 'break stop' 'continue' 'print mine' 'print zeroed' 'print in_library' 'info sharedlibrary' 'continue' \
  'info sharedlibrary' 'print mine' 'print zeroed' 'print in_library' 'thread apply 2 print mine + zeroed * 1000' \
  'thread apply 2 print in_library' 'thread apply 2 print opened_later' 'print opened_later' 'continue' 'print opened_later' \
  'watch opened_later' 'reverse-continue' 'print opened_later' 'delete' 'reverse-continue' 'info sharedlibrary' \
  'info proc mappings' 'info proc cmdline' 'info proc exe' 'info auxv'
printed '^\$1 = 5$'
printed '^\$2 = 0$'
printed '^\$3 = 1$'
printed '^\$4 = 200$'
printed '^\$5 = 201$'
printed '^\$6 = 202$'
printed '^\$7 = 101100$'
printed '^\$8 = 103$'
printed '^\$9 = 104$'
printed 'Cannot find thread-local storage'  # thread 1 has not touched it yet
printed '^\$10 = 204$'
printed '^New value = 3$'
printed '^\$11 = 3$'
# At the start there are no libraries but the linker, at the first stop two, then three.
times 3 'Yes.* /.*/ld-linux'
times 2 'Yes.* /.*/libc.so.6'
times 1 'Yes.* /.*/liblater.so'
printed 'r-xp +/.*/locals$'
printed 'rw-p +\[stack\]'
printed "^cmdline = '$T/locals'"
printed "^exe = '$T/locals'"
printed 'AT_PHDR.*0x'

# Without a dynamic linker.
cat >"$T/static.c" <<'C'
__thread int counter = 7;
int main(void) { counter++; return counter; }
C
gcc -g -static -o "$T/static" "$T/static.c"
recorded static 8
in_gdb static 'break main' 'continue' 'print counter' 'next' 'print counter' 'watch counter' 'reverse-continue' 'print counter'
printed '^\$1 = 7$'
printed '^\$2 = 8$'
printed '^\$3 = 7$'

# The socket's folder is made where temporary files belong, and is gone whatever happens to gdb.
mkdir "$T/tmp"
TMPDIR=$T/tmp in_gdb static 'shell ls -A '"$T/tmp"' | wc -l' 'continue'
printed '^0$'
cat >"$T/dies" <<'S'
#!/bin/sh
ls "$TMPDIR" >"$TMPDIR/../seen"
exit 5
S
chmod +x "$T/dies"
status=0
TMPDIR=$T/tmp BACKSTEP_GDB=$T/dies "$BACKSTEP" replay -q "$T/rec-static" || status=$?
[ "$status" = 5 ] || fail "status $status of a gdb that ends at once"
grep -q backstep-gdb "$T/seen" || fail "no folder in TMPDIR"
is_empty() { [ -z "$(ls -A "$1")" ]; }
comes is_empty "$T/tmp" || fail "the folder is still there: $(ls -A "$T/tmp")"
ok
