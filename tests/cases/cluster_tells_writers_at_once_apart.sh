#!/usr/bin/env bash
# Processes that write into one pipe at once, and others that read from it at once: whose turn it was is told by checksums, also where what one has
# written begins as what another one has written.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >crowd.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int p[2], n;
  char b[5000];
  pipe(p);
  for (int k = 0; k < atoi(argv[1]); k++)
    if (!fork()) {
      srand(k + 1);
      for (int i = 0; i < 400; i++) n = 1 + rand() % 900, memset(b, 'a' + rand() % 26, n), write(p[1], b, n);
      _exit(0);
    }
  close(p[1]);
  for (int k = 1; k < atoi(argv[2]); k++)
    if (!fork()) {
      while ((n = read(p[0], b, 1 + rand() % 5000)) > 0) {}
      _exit(0);
    }
  srand(77);
  while ((n = read(p[0], b, 1 + rand() % 5000)) > 0) {}
  while (wait(0) > 0) {}
  return 0;
}
C
gcc -w -O1 -o crowd crowd.c
for crowd in "4 1" "1 2" "3 2"; do
  rm -rf r
  # shellcheck disable=SC2086
  expect 0 "$BACKSTEP" record -q --host A -o r ./crowd $crowd
  expect 0 "$BACKSTEP" cluster ls r --messages --json
  "$PYTHON" - "$crowd" <<'PY' || fail "$crowd"
import collections, json, sys
run = json.load(open("out"))
writers = int(sys.argv[1].split()[0])
assert not run["unmatched"] and all(m["checked"] for m in run["messages"]), run["unmatched"][:3]
end, last = 0, collections.Counter()
for m in run["messages"]:  # in the order of the bytes
    assert m["offset"] == end
    end += m["bytes"]
    for side in ("sent", "received"):
        who = side, m[side]["process"]
        assert m[side]["event"] >= last[who], m
        last[who] = m[side]["event"]
calls = collections.defaultdict(set)
for m in run["messages"]: calls[m["sent"]["process"]].add(m["sent"]["event"])
assert len(calls) == writers and all(len(c) == 400 for c in calls.values()), {w: len(c) for w, c in calls.items()}
PY
done
ok
