#!/usr/bin/env bash
# Three processes that wait for each other in a ring are a deadlock, and it is said who waits for whom; a chain of waiting
# processes that somebody can help is none.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >ring.c <<'C'
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
// Process n reads from pipe n and writes to the next one; with an argument the first one computes instead.
int main(int argc, char **argv) {
  int p[3][2], me = 0;
  char c;
  for (int i = 0; i < 3; i++)
    if (pipe(p[i])) return 1;
  for (int i = 1; i < 3 && me == 0; i++)
    if (!fork()) me = i;
  for (int i = 0; i < 3; i++) {
    if (i != me) close(p[i][0]);
    if (i != (me + 1) % 3) close(p[i][1]);
  }
  if (write(2, "r", 1) != 1) return 1;
  if (argc > 1 && me == 0) syscall(SYS_nanosleep, &(long[2]){100000, 0}, 0);
  return read(p[me][0], &c, 1) != 1;
}
C
gcc -g -o ring ring.c
# hang NAME ARG...: records it until all three have said that they are about to wait, and do; then they are told to end.
hang() {
  local name=$1 pids
  shift
  "$BACKSTEP" record -q --host A -o "$name" ./ring "$@" 2>"$name.err" &
  comes three "$name" || fail "$name does not come to its reads"
  pids=$("$BACKSTEP" ps --json "$name" | "$PYTHON" -c 'import json, sys; print(*(p["pid"] for p in json.load(sys.stdin)))')
  for pid in $pids; do comes sleeps "$pid" || fail "$name: $pid does not wait"; done
  # shellcheck disable=SC2086
  kill -TERM $pids
  wait || true
  tree_ended "$name"
}
three() { [ "$(tr -cd r <"$1.err" 2>/dev/null | wc -c)" = 3 ]; }
sleeps() { grep -qE '^(0|35) ' "/proc/$1/syscall" 2>/dev/null; }

hang deadlock
expect 1 "$BACKSTEP" cluster blocked deadlock
[ "$(grep -c '^A/ring.* read .*pipe' "$T/out")" = 3 ] || fail "not all three wait for a pipe: $(cat "$T/out")"
seen 'deadlock: A/ring waits for A/ring.2, A/ring.2 waits for A/ring.1, A/ring.1 waits for A/ring$' <"$T/out" ||
  fail "the ring is not told: $(cat "$T/out")"
expect 1 "$BACKSTEP" cluster blocked deadlock --json
[ "$(field deadlocks.0 <"$T/out")" = '["A/ring", "A/ring.2", "A/ring.1"]' ] || fail "the ring in JSON: $(cat "$T/out")"

hang waiting sleep
expect 0 "$BACKSTEP" cluster blocked waiting alive
seen 'A/ring .*nanosleep .*a time to come' <"$T/out" || fail "who sleeps: $(cat "$T/out")"
ok
