#!/usr/bin/env bash
# Channels within a host: a pipe between two recordings, descriptors that are sent to another process, unix sockets with several clients that
# say the same, splice and sendfile, a connection to oneself; ends, waits and signals order processes, too.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >many.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
static void quiet(int signo) { (void)signo; }
// A descriptor goes over a pair of sockets to a process that was there before it was made.
static void send_fd(int over, int fd) {
  char byte = 'f', room[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  sendmsg(over, &m, 0);
}
static int receive_fd(int over) {
  char byte, room[CMSG_SPACE(sizeof(int))];
  int fd = -1;
  struct iovec part = {&byte, 1};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  if (recvmsg(over, &m, 0) == 1) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}
int main() {
  char b[64];
  int pair[2], p[2], q[2];
  struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "here.sock"};
  signal(SIGUSR1, quiet);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  const pid_t main_process = getpid(), first = fork();
  if (!first) {  // many.1
    int end = receive_fd(pair[1]);
    write(end, "over a descriptor that came", 27);
    kill(main_process, SIGUSR1);
    _exit(0);
  }
  pipe(p);
  send_fd(pair[0], p[1]);
  close(p[1]);
  if (read(p[0], b, sizeof b) != 27) return 1;
  // Two clients that say the same: many.2 and many.3.
  int l = socket(AF_UNIX, SOCK_STREAM, 0);
  unlink(path.sun_path);
  if (bind(l, (void *)&path, sizeof path) || listen(l, 5)) return 2;
  for (int k = 0; k < 2; k++)
    if (!fork()) {
      int s = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(s, (void *)&path, sizeof path) || write(s, "the same", 8) != 8) _exit(1);
      _exit(read(s, b, sizeof b) == 0 ? 0 : 2);
    }
  for (int k = 0; k < 2; k++) {
    int s = accept(l, 0, 0);
    if (read(s, b, sizeof b) != 8) return 3;
    close(s);
  }
  // Past the program's memory: a file into one pipe, from there into another one.
  int f = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  write(f, "0123456789", 10);
  off_t start = 0;
  pipe(p), pipe(q);
  if (sendfile(p[1], f, &start, 10) != 10 || splice(p[0], 0, q[1], 0, 6, 0) != 6) return 4;
  if (read(q[0], b, 4) != 4 || read(q[0], b, 4) != 2 || read(p[0], b, 64) != 4) return 5;
  // A socket that is connected to itself.
  int self = socket(AF_INET, SOCK_STREAM, 0), n;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  if (bind(self, (void *)&a, sizeof a) || getsockname(self, (void *)&a, &size)) return 6;
  if (connect(self, (void *)&a, sizeof a)) return 7;
  if (write(self, "to myself", 9) != 9 || (n = (int)read(self, b, sizeof b)) != 9) return 8;
  while (wait(0) > 0) {}
  write(1, "out", 3);
  return 0;
}
C
gcc -w -O1 -o many many.c
expect 0 "$BACKSTEP" record -q --host A -o a ./many
expect 0 "$BACKSTEP" replay --autopilot -q a
expect 0 "$BACKSTEP" cluster ls a --messages --json
"$PYTHON" - <<'PY' || { cat out >&2; fail "one host"; }
import json
run = json.load(open("out"))
def said(sender, receiver, kind):
    return sorted((m["offset"], m["bytes"]) for m in run["messages"]
                  if m["sent"]["process"] == sender and m["received"]["process"] == receiver and m["channel"].startswith(kind))
assert said("A/many.1", "A/many", "pipe") == [(0, 27)], "over the descriptor that was sent"
assert said("A/many", "A/many.1", "socketpair") == [(0, 1)]
for client in ("A/many.2", "A/many.3"):
    assert said(client, "A/many", "unix") == [(0, 8)], client
assert said("A/many", "A/many", "pipe") == [(0, 4), (0, 6), (4, 2), (6, 4)], said("A/many", "A/many", "pipe")
assert said("A/many", "A/many", "tcp") == [(0, 9)], "to itself"
assert not [u for u in run["unmatched"] if u["bytes"] and "pipe" not in (u["channel"] or "")], run["unmatched"]
edges = {(e["kind"], e["from"]["process"], e["to"]["process"]) for e in run["edges"]}
for k in (1, 2, 3):
    assert ("fork", "A/many", f"A/many.{k}") in edges and ("wait", f"A/many.{k}", "A/many") in edges, (k, edges)
assert ("signal", "A/many.1", "A/many") in edges, edges
for k in (2, 3):
    assert ("connect", f"A/many.{k}", "A/many") in edges and ("close", "A/many", f"A/many.{k}") in edges, edges
names = [c["name"] for c in run["channels"]]
assert len(set(names)) == len(names), names
PY
# Two recordings of one machine: what the one has written into the pipe between them the other one has read.
"$BACKSTEP" record -q --host left -o left ./many | "$BACKSTEP" record -q --host right -o right cat >copy
[ "$(cat copy)" = out ] || fail "the pipe"
expect 0 "$BACKSTEP" cluster gather left right -o run
expect 0 "$BACKSTEP" cluster ls run --messages --json
"$PYTHON" - <<'PY' || { cat out >&2; fail "two recordings"; }
import json
run = json.load(open("out"))
between = [m for m in run["messages"] if m["sent"]["process"] == "left/many" and m["received"]["process"] == "right/cat"]
assert [(m["offset"], m["bytes"], m["checked"]) for m in between] == [(0, 3, True)], between
assert [e for e in run["edges"] if e["kind"] == "close" and e["from"]["process"] == "left/many" and e["to"]["process"] == "right/cat"]
PY
ok
