#!/usr/bin/env bash
# 'why' across processes: what came out of a pipe is followed into the process that wrote it, byte for byte, and a value from before a
# fork into the parent's history.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >pipes.c <<'C'
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
char got[16], answer[8];
int before_fork, in_child;
int main(int argc, char **argv) {
  int p[2], s[2];
  before_fork = argc * 100;
  if (pipe(p) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) != 0) return 1;
  if (fork() == 0) {
    char text[16];
    strcpy(text, argv[1]);
    text[0]++;
    in_child = before_fork;
    if (write(p[1], text, 2) != 2 || write(p[1], text + 2, 6) != 6) return 1;
    if (read(s[1], answer, 4) != 4) return 1;
    _exit(0);
  }
  // Not as it was written.
  for (int n = 0; n < 8;) n += read(p[0], got + n, n == 0 ? 1 : 8 - n);
  if (write(s[0], argv[2], 4) != 4) return 1;
  wait(0);
  return 0;
}
C
gcc -g -O1 -o pipes pipes.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/pipes" ./pipes hello-xy back
expect 0 "$BACKSTEP" why --json got pipes
"$PYTHON" - <<'PY' || { "$BACKSTEP" why got pipes >&2; fail "through the pipe"; }
import json
a = json.load(open("out"))
ends = {}
def walk(value, base, shift):
    for part in value["parts"]:
        o = part["origin"]
        at = base + part["offset"] if shift else base
        for i in o.get("inputs", []):
            walk(i, at, shift and o["kind"] == "read")
            # What was written in pieces and read at once has an input for each piece.
            if shift and o["kind"] == "read": at += len(i["bytes"]) // 2
        if o["kind"] == "argument":
            ends[base + part["offset"]] = o
        if o["kind"] == "read":
            assert "process #2" in o["sentence"] and "order of the calls alone" not in o["sentence"], o
            assert o["inputs"], o
walk(a["value"], 0, True)
# Byte 0 was counted up on the way; each byte is the one of argv[1] at its place.
assert ends and all(o["process"] == 2 and "argv[1]" in o["sentence"] and f"byte {n}" in o["sentence"] for n, o in ends.items()), ends
first = a["value"]["parts"][0]["origin"]["inputs"][0]["parts"][0]["origin"]
assert first["kind"] == "computed" and first["function"] == "main" and first["process"] == 2, first
PY
expect 0 "$BACKSTEP" why answer -p '#2' pipes
seen 'argv\[2\], "back"' <out || { cat out >&2; fail "through the pair of sockets"; }
expect 0 "$BACKSTEP" why in_child -p '#2' pipes
seen 'argc' <out || { cat out >&2; fail "from before the fork"; }
seen 'computed: 3 \* 100' <out || { cat out >&2; fail "computed before the fork"; }
ok
