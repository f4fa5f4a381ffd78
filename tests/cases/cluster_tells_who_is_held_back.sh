#!/usr/bin/env bash
# In a cut some processes stand at breakpoints, or were to ('suspended'), and some wait only because the recording took something else
# first ('delayed'): another sender's message to the same socket or pipe, another client of the same listener, another child, another of
# the descriptors that are polled. Who can only wait for the one is not delayed.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >queue.c <<'C'
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
// Children 1 and 2 do the same one after the other: 2 sees in /proc that 1 has ended, which orders nothing for anybody else.
static void first(void) {}  // here
static int one, two;
static int has_ended(int pid) {
  char name[64], text[512] = "";
  snprintf(name, sizeof name, "/proc/%d/stat", pid);
  const int fd = open(name, O_RDONLY);
  if (fd >= 0 && read(fd, text, sizeof text - 1) < 0) text[0] = 0;
  if (fd >= 0) close(fd);
  return !*text || strstr(text, ") Z");
}
static int child(int n, void (*act)(int)) {
  const int pid = fork();
  if (pid) return pid;
  if (n == 1) first();
  while (n == 2 && !has_ended(one)) usleep(1000);
  act(n);
  _exit(0);
}
static int ends[3][2];
static struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "here.sock"};
static void writes_to_one(int n) { if (write(ends[0][1], &n, 4) != 4) _exit(1); }
static void writes_to_own(int n) { if (write(ends[n][1], &n, 4) != 4) _exit(1); }
static void connects(int n) {
  (void)n;
  if (connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&at, sizeof at)) _exit(1);
}
static void nothing(int n) { (void)n; }
static void get(int fd) {
  int n;
  if (read(fd, &n, 4) != 4) exit(1);
}
int main(int argc, char **argv) {
  const char *what = argv[argc - 1];
  const int datagrams = !strcmp(what, "datagrams");
  int listener = -1;
  for (int i = 0; i < 3; i++)
    if (datagrams ? socketpair(AF_UNIX, SOCK_DGRAM, 0, ends[i]) : pipe(ends[i])) return 1;
  void (*act)(int) = writes_to_one;
  if (!strcmp(what, "poll") || !strcmp(what, "turns")) act = writes_to_own;
  if (!strcmp(what, "children")) act = nothing;
  if (!strcmp(what, "clients")) {
    act = connects;
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 5)) return 1;
  }
  one = child(1, act), two = child(2, act);
  if (!strcmp(what, "children")) {
    // Both have ended before it looks; 1 did first.
    if (waitpid(-1, 0, 0) != one || waitpid(-1, 0, 0) != two) return 0;
  } else if (listener >= 0) {
    if (accept(listener, 0, 0) < 0 || accept(listener, 0, 0) < 0) return 1;
  } else if (!strcmp(what, "poll")) {
    struct pollfd p[2] = {{ends[1][0], POLLIN, 0}, {ends[2][0], POLLIN, 0}};
    for (int left = 2; left; left--) {
      poll(p, 2, -1);
      const int k = p[0].revents ? 0 : 1;
      get(p[k].fd), p[k].fd = -1, p[k].revents = 0;
    }
  } else if (!strcmp(what, "turns")) {
    get(ends[1][0]), get(ends[2][0]);
  } else {
    get(ends[0][0]), get(ends[0][0]);
  }
  while (wait(0) > 0) {
  }
  return 0;
}
C
gcc -g -O0 -o queue queue.c
cluster() { "$BACKSTEP" cluster "$@"; }
# held WHAT KIND: with the first child stopped before it does anything, and the others as far as they can, the replay holds their parent,
# although what the second one did is there. KIND none: it does not.
held() {
  rm -f here.sock
  "$BACKSTEP" record -q --host A -o "$1" ./queue "$1"
  tree_ended "$1"
  expect 0 cluster break "$1" A/queue.1 first --optimistic --json --quick
  cp out cut.json
  expect 0 cluster delayed "$1" --json
  "$PYTHON" - "$2" <<'PY' || { cluster cuts "$1" break-1 --quick >&2; cat out >&2; fail "$1: held back"; }
import json, sys
rows = json.load(open("out"))
cut = {p["process"]: p for p in json.load(open("cut.json"))["processes"]}
if sys.argv[1] == "none":
    assert rows == [] and "delayed" not in cut["A/queue"], rows
else:
    assert [(r["process"], r["kind"], r["from"], r["giver"]) for r in rows] == [("A/queue", sys.argv[1], "A/queue.1", "A/queue.2")], rows
    assert cut["A/queue"]["delayed"] == rows[0]["there"] and cut["A/queue"]["state"] == "waits", cut
PY
}
held datagrams overtaken
held pipe overtaken
held clients queue
held children child
held poll choice
held turns none
expect 0 cluster goto poll end --quick
expect 0 cluster delayed poll
seen 'holds nobody back' <out || fail "at the end: $(cat out)"

# Who was to stop: with the line, or why it did not come there.
expect 0 cluster goto pipe break-1 --quick
expect 0 cluster suspended pipe
seen -E "^A/queue.1 +1 +first +yes +@[^ ]+ +first at queue.c:$(grep -n '// here' queue.c | cut -d: -f1)" <out || fail "who is suspended: $(cat out)"
expect 0 cluster break pipe A/queue.1 first A/queue end --optimistic --quick
expect 1 cluster suspended pipe --json
"$PYTHON" - <<'PY' || { cat out >&2; fail "who was to stop"; }
import json
rows = {r["process"]: r for r in json.load(open("out"))}
assert rows["A/queue.1"]["reached"] and rows["A/queue.1"]["thread"] == 1, rows
assert not rows["A/queue"]["reached"] and "does not come to end" in rows["A/queue"]["why"], rows
PY
expect 0 cluster goto pipe end --quick
expect 0 cluster suspended pipe
seen 'was to stop' <out || fail "nobody: $(cat out)"
ok
