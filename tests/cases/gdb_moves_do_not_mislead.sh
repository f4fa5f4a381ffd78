#!/usr/bin/env bash
# After goto, restart and the like gdb's watchpoints compare with the value of that moment; last-write and last-change
# say who, where and what, and stand there, whichever thread it was. C++ catchpoints survive a move to before the
# library was loaded.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile toggles <<'C'
#include <stdio.h>
#include <unistd.h>
int g, same;
char text[8];
int local(int n) {
  int mine = 0;
  for (int i = 0; i < n; i++) mine = i % 2;
  return mine;
}
int main(void) {
  int ends[2];
  for (int i = 0; i < 5; i++) {
    g = i % 2;
    same = 3;
  }
  if (pipe(ends) || write(ends[1], "kernel", 7) != 7 || read(ends[0], text, 7) != 7) return 1;
  printf("%d %d %s\n", g, local(5), text);
  return 0;
}
C
recorded toggles 0
# Once forwards: 0 becomes 1. At the end it is 0: the last change is 1 -> 0, backwards the new value is the 1 that gdb
# knows from before.
for move in 'goto end' 'goto 100%' 'goto output 0 0' 'step-quantum'; do
  in_gdb toggles 'break main' 'continue' 'watch g' 'continue' 'goto end' 'checkpoint' "$move" 'reverse-continue' 'print g' 'reverse-continue' 'print g'
  printed '^\$1 = 1$'
  printed '^\$2 = 0$'
done
in_gdb toggles 'break main' 'goto end' 'checkpoint' 'reverse-continue' 'watch g' 'rwatch same' 'watch $rbx' 'disable 4' 'continue' 'restart 1' 'reverse-continue' 'print g' \
  'info breakpoints'
printed '^\$1 = 1$'
printed '^2 +hw watchpoint +keep y +g$'
printed 'breakpoint already hit 2 times'
# A local variable, in its frame.
in_gdb toggles 'break local' 'continue' 'checkpoint' 'watch mine' 'continue' 'print mine' 'restart 1' 'print mine' 'continue' 'print mine'
printed '^\$2 = 0$'
times 2 '^Old value = 0$'
times 2 '^\$[13] = 1$'

in_gdb toggles 'goto end' 'last-change g' 'print g' 'goto end' 'last-write g' 'print i' 'goto end' 'last-write same' 'print i' 'goto end' 'last-change same' 'print i' \
  'goto end' 'last-write text' 'last-write text' 'monitor last 1'
printed 'last change of g: thread 1 "toggles" in main \(.*toggles.c:13\)'
printed '^  before: 1$'
printed '^  after:  0$'
printed '^\$1 = 1$'
printed 'last write of g: thread 1 '
printed '^\$2 = 4$'
printed '^\$3 = 4$'
printed '^\$4 = 0$'
printed 'in front of the system call \(read\) that made it'
printed '^  after:  "kernel'
printed '^#. .* main \(\) at .*toggles.c'
printed 'have not been written to since the start'

compile team -pthread <<'C'
#include <pthread.h>
#include <stdio.h>
struct point { int x, y; } shared;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
void touch(int v) { pthread_mutex_lock(&m); shared.x = v; pthread_mutex_unlock(&m); }
void *work(void *a) { touch(7); touch(7); return a; }
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, work, 0);
  pthread_join(t, 0);
  printf("%d\n", shared.x);
  return 0;
}
C
recorded team 0
in_gdb team 'goto end' 'last-write shared' 'info threads' 'last-change shared.x' 'print v' 'when'
printed 'last write of shared: thread 2 "team" in touch \(.*team.c:5\)'
printed '^  before: \{x = 7, y = 0\}$'
printed '^\* 2 +Thread .* touch \(v=7\)'
printed 'last change of shared.x: thread 2 "team" in touch'
printed '^#1 .* in work \(a=0x0\)'
printed '^\$1 = 7$'
times 1 '^  before: 0$'
[ "$(grep -o '@[0-9]*:0x[0-9a-f]*' "$T/gdb" | tail -n 2 | uniq | wc -l)" = 1 ] || fail "last-change stands elsewhere"
in_gdb team 'python
def tried(command):
    try:
        gdb.execute(command)
    except gdb.error as error:
        print(error)' 'python tried("last-write $rbx")' 'python tried("last-change nothing")' 'python tried("last-write 5")'
times 2 'not located in memory.* \(it takes a variable'
times 1 'No symbol "nothing" in current context.*it takes a variable'
not_printed 'Python|Error occurred'
# What other threads change while gdb has resumed only one of them.
in_gdb team 'break touch' 'continue' 'continue' 'watch shared.x' 'thread 1' 'set scheduler-locking on' 'goto start' 'continue' 'set scheduler-locking off' \
  'reverse-continue' 'reverse-continue'
times 1 '^Old value = 7$'
times 1 '^New value = 0$'

need g++
cat >"$T/throws.cc" <<'C'
#include <cstdio>
#include <stdexcept>
int main() {
  for (int i = 0; i < 2; i++)
    try { throw std::runtime_error("a"); } catch (std::exception &e) { puts(e.what()); }
}
C
g++ -g -O0 -o "$T/throws" "$T/throws.cc"
recorded throws 0
in_gdb throws 'set breakpoint pending on' 'checkpoint' 'catch throw' 'continue' 'goto start' 'continue' 'continue' 'restart 1' 'continue' 'reverse-continue' 'continue' \
  'reverse-stepi' 'continue'
times 6 'Catchpoint 1 \(exception thrown\)'
ok
