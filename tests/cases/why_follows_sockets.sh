#!/usr/bin/env bash
# 'why' through connections: which recorded process wrote what came out of a socket is known from their addresses, whichever calls moved it; so
# clients that said the same are told apart.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >net.c <<'C'
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
char got[16], first;
int answer;
long sum;
int main(int argc, char **argv) {
  int l = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  socklen_t n = sizeof a;
  if (bind(l, (void *)&a, n) || listen(l, 5) || getsockname(l, (void *)&a, &n)) return 1;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int k = 1; k <= 2; k++)
    if (!fork()) {
      int s = socket(AF_INET, SOCK_STREAM, 0);
      char x[8] = "nr ", y[4];
      if (connect(s, (void *)&a, n)) _exit(1);
      x[3] = argv[1][k];
      strcpy(y, argv[2]);
      struct iovec parts[2] = {{x, 4}, {y, 3}};
      if (writev(s, parts, 2) != 7 || read(s, &answer, 4) != 4) _exit(2);
      _exit(0);
    }
  for (int k = 0; k < 2; k++) {
    char b[16];
    struct iovec part = {b, sizeof b};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    int s = accept(l, 0, 0);
    if (recv(s, &first, 1, MSG_PEEK) != 1 || recvmsg(s, &m, 0) != 7) return 2;
    memcpy(got + 8 * k, b, 7);
    sum += b[3];
    int reply = argv[1][1] == argv[1][2] ? 7 : b[3] * 10;
    if (write(s, &reply, 4) != 4) return 3;
  }
  wait(0), wait(0);
  return 0;
}
C
gcc -g -O1 -o net net.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/net" ./net 3ab xyz
expect 0 "$BACKSTEP" why --json got net
"$PYTHON" - <<'PY' || { "$BACKSTEP" why got net >&2; fail "through the connections"; }
import json
ends = {}
for part in json.load(open("out"))["value"]["parts"]:
    o = part["origin"]
    if o["kind"] != "read": continue
    assert len(part["bytes"]) == 7 * 2 and "order of the calls alone" not in o["sentence"], part
    for i in o["inputs"]:
        for p in i["parts"]:
            ends[part["offset"] + p["offset"]] = (p["origin"]["process"], p["origin"]["sentence"])
assert sorted(ends) == [0, 3, 4, 8, 11, 12], ends
for base in 0, 8:
    assert "constant in the code" in ends[base][1] and "argv[1]" in ends[base + 3][1] and "argv[2]" in ends[base + 4][1], ends
assert {ends[0][0], ends[8][0]} == {2, 3} and all(ends[b][0] == ends[b + 3][0] == ends[b + 4][0] for b in (0, 8)), ends
assert {ends[3][1][-1:] for b in (3, 11)} <= {"1", "2"} and ends[3][1] != ends[11][1], ends
PY
# There and back: the answer was computed from what was sent.
expect 0 "$BACKSTEP" why answer -p '#2' net
seen 'written by process #1' <out && seen 'computed: .* \* 10' <out && seen 'written by process #2' <out && seen 'argv\[1\]' <out ||
  { cat out >&2; fail "there and back"; }
# Two who said the same, and got the same: they are known by their addresses.
expect 0 "$BACKSTEP" record -q -o "$T/recordings/same" ./net 3aa xyz
expect 0 "$BACKSTEP" why sum same
seen 'written by process #2' <out && seen 'written by process #3' <out || { cat out >&2; fail "clients that said the same"; }
# The table has the same.
expect 0 "$BACKSTEP" sql --json "SELECT kind, sender, receiver, bytes, checked, CAST(data AS TEXT) AS text FROM messages WHERE NOT peeked ORDER BY received, sender" net
"$PYTHON" - <<'PY' || { cat out >&2; fail "the table of messages"; }
import json
rows = [json.loads(line) for line in open("out")]
assert len(rows) == 4 and all(r["kind"] == "socket" and r["checked"] == 1 for r in rows), rows
there = [r for r in rows if r["receiver"] == 1]
assert {(r["sender"], r["bytes"]) for r in there} == {(2, 7), (3, 7)} and {r["text"] for r in there} == {"nr axyz", "nr bxyz"}, rows
PY
ok
