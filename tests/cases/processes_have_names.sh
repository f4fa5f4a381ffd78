#!/usr/bin/env bash
# -p takes a pid, or the number of a log; each can be said so that there is no doubt. The threads of a forked child are
# named as in its parent.
source "$(dirname "$0")/lib.bash"
expect 0 "$BACKSTEP" record -q -o rec bash -c 'exit 3 | /bin/true; (exit 5); true'
pid_of() { "$BACKSTEP" ps --json rec | "$PYTHON" -c 'import json, sys; print([p["pid"] for p in json.load(sys.stdin) if p["number"] == int(sys.argv[1])][0])' "$1"; }
pid=$(pid_of 2)
for name in '#2' process-2 2; do
  [ "$("$BACKSTEP" info --json -p "$name" rec | field process)" = 2 ] || fail "-p $name is not process 2"
  expect 0 "$BACKSTEP" replay --autopilot -q -p "$name" rec
  expect 0 "$BACKSTEP" dump -p "$name" rec
  grep -q ' 2\.1 ' out || fail "dump -p $name shows another process"
done
for name in "$pid" "pid:$pid"; do
  shown=$("$BACKSTEP" info --json -p "$name" rec | field process)
  [ "$(pid_of "$shown")" = "$pid" ] || fail "-p $name shows process $shown"
done
for name in '#77' process-77 pid:1 77x '#' 4000000; do
  expect 2 "$BACKSTEP" info -p "$name" rec
  says 'backstep ps'
done
# A child of the second thread.
cat >fork.c <<'C'
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *forks(void *unused) {
  if (fork() == 0) { getppid(); _exit(0); }
  wait(0);
  return unused;
}
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, forks, 0);
  return pthread_join(t, 0);
}
C
gcc -o fork fork.c -pthread
expect 0 "$BACKSTEP" record -q -o rec2 ./fork
expect 0 "$BACKSTEP" dump -p '#2' -k getppid rec2
grep -q ' 2\.2 ' out || { cat out; fail "the child's thread is not that which forked"; }
ok
