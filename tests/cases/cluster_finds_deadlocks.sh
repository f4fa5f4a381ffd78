#!/usr/bin/env bash
# Three processes that wait for each other in a ring are a deadlock, and it is said who waits for whom, in whichever way they wait: in a
# read, in epoll, or by asking again and again. A chain of waiting processes that somebody can help is none.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >ring.c <<'C'
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
// Process n reads from pipe n and writes to the next one. sleep: the first one computes instead; epoll, spin: it waits for its pipe in that
// way; outside: it listens to stdin, too, whose other end nobody has recorded.
static void await(const char *how, int fd) {
  struct pollfd p[2] = {{fd, POLLIN, 0}, {0, POLLIN, 0}};
  const int fds = !strcmp(how, "outside") ? 2 : 1;
  if (!strcmp(how, "epoll")) {
    struct epoll_event e = {EPOLLIN, {0}};
    const int set = epoll_create1(0);
    if (!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e)) epoll_wait(set, &e, 1, -1);
  } else if (!strcmp(how, "outside")) {
    poll(p, fds, -1);
  } else if (!strcmp(how, "spin")) {
    while (!poll(p, 1, 0)) sched_yield();
  }
}
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
  if (argc > 1 && !strcmp(argv[1], "sleep") && me == 0) syscall(SYS_nanosleep, &(long[2]){100000, 0}, 0);
  if (argc > 1) await(argv[1], p[me][0]);
  return read(p[me][0], &c, 1) != 1;
}
C
gcc -g -o ring ring.c
# hang NAME ARG...: records it until all three have said that they are about to wait, and do; then they are told to end.
hang() {
  local name=$1 pids
  shift
  "$BACKSTEP" record -q --host A -o "$name" ./ring "$@" 2>"$name.err" <"${STDIN:-/dev/null}" 3>&- &
  comes three "$name" || fail "$name does not come to its reads"
  pids=$("$BACKSTEP" ps --json "$name" | "$PYTHON" -c 'import json, sys; print(*(p["pid"] for p in json.load(sys.stdin)))')
  for pid in $pids; do comes "${WAITS:-sleeps}" "$pid" || fail "$name: $pid does not wait"; done
  # shellcheck disable=SC2086
  kill -TERM $pids
  wait || true
  tree_ended "$name"
}
three() { [ "$(tr -cd r <"$1.err" 2>/dev/null | wc -c)" = 3 ]; }
# In one of these calls: read or nanosleep, where nothing else is said.
sleeps() { grep -qE "^(${CALLS:-0|35}) " "/proc/$1/syscall" 2>/dev/null; }
# Has it computed for a while? Then it has polled many times.
spins() { [ "$(awk '{print $14 + $15}' "/proc/$1/stat" 2>/dev/null || echo 0)" -ge 60 ]; }

hang deadlock
expect 1 "$BACKSTEP" cluster blocked deadlock
[ "$(grep -c '^A/ring.* read .*pipe' "$T/out")" = 3 ] || fail "not all three wait for a pipe: $(cat "$T/out")"
seen 'deadlock: A/ring waits for A/ring.2, A/ring.2 waits for A/ring.1, A/ring.1 waits for A/ring$' <"$T/out" ||
  fail "the ring is not told: $(cat "$T/out")"
expect 1 "$BACKSTEP" cluster blocked deadlock --json
[ "$(field deadlocks.0 <"$T/out")" = '["A/ring", "A/ring.2", "A/ring.1"]' ] || fail "the ring in JSON: $(cat "$T/out")"

CALLS='232|281' hang epoll epoll
expect 1 "$BACKSTEP" cluster blocked epoll
[ "$(grep -c '^A/ring.* epoll_p\?wait .*pipe' out)" = 3 ] || fail "not all three wait for a pipe: $(cat out)"
seen '^deadlock: A/ring waits for A/ring.2, A/ring.2 waits for A/ring.1, A/ring.1 waits for A/ring$' <out || fail "the ring in epoll: $(cat out)"

WAITS=spins hang spin spin
expect 1 "$BACKSTEP" cluster blocked spin
[ "$(grep -c '^A/ring.* polls .*pipe' out)" = 3 ] || fail "not all three poll: $(cat out)"
seen '^deadlock: A/ring waits for A/ring.2, A/ring.2 waits for A/ring.1, A/ring.1 waits for A/ring$' <out || fail "the ring that polls: $(cat out)"

# Somebody who was not recorded could write to stdin: nothing is certain.
mkfifo fifo
exec 3<>fifo
CALLS='7|271' STDIN=fifo hang outside outside
expect 0 "$BACKSTEP" cluster blocked outside
seen 'somebody who was not recorded helps: A/ring waits for A/ring.2' <out || fail "the ring with an outsider: $(cat out)"
seen '^deadlock' <out && fail "an outsider could help: $(cat out)"

hang waiting sleep
expect 0 "$BACKSTEP" cluster blocked waiting alive
seen 'A/ring .*nanosleep .*a time to come' <"$T/out" || fail "who sleeps: $(cat "$T/out")"
ok
