#!/usr/bin/env bash
# 'diff': two runs with the same input take the same way; with another input it names the branch, its line, the values on both sides and
# the bytes of the file that they came from; other programs are refused.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >parts.c <<'C'
#include <fcntl.h>
#include <unistd.h>
int weighed;
__attribute__((noinline)) int weigh(int n) {
  if (n > 40)
    return n / 2;
  return n + 1;
}
int main(int argc, char **argv) {
  char b[64] = {0};
  int sum = 0, fd = open(argv[1], O_RDONLY);
  int n = read(fd, b, 60);
  for (int i = 0; i < 1000; i++) sum += i % 7;
  for (int i = 0; i + 1 < n; i++) weighed += weigh(b[i]);
  return weighed + sum == 7;
}
C
sed 's/n \/ 2/n \/ 3/' parts.c >other.c
gcc -g -O1 -o parts parts.c
gcc -g -O1 -o other other.c
record() { expect 0 "$BACKSTEP" record -q -o "$T/recordings/$1" "./${2:-parts}" input; }
echo 'ABCDEF' >input
record a
record again
record stranger other
echo 'ABC!EF' >input
record b
expect 0 "$BACKSTEP" diff a again
seen 'same way' <out || fail "the same"
expect 1 "$BACKSTEP" diff --json a b
"$PYTHON" - <<'PY' || { "$BACKSTEP" diff a b >&2; fail "where they part"; }
import json
d = json.load(open("out"))
assert d["parted"] and "branch" in d["sentence"], d
assert d["last"]["function"] == "weigh" and d["last"]["line"] == 5, d["last"]
assert d["a"]["at"] != d["b"]["at"]
values = [(o["a"], o["b"]) for o in d["operands"]]
assert ("68", "33") in values, values
source = [o for o in d["operands"] if o["a"] == "68"][0]
assert any("input, offset 3" in t for t in source["a_from"]) and any("input, offset 3" in t for t in source["b_from"]), source
# The loader asks the processor for the time.
inputs = [d[k] for k in ("input", "nearest") if k in d]
assert d["inputs"] >= 1 and "ABCDEF" in inputs[-1]["a"]["text"] and "ABC!EF" in inputs[-1]["b"]["text"], inputs
PY
expect 1 "$BACKSTEP" diff b a
seen 'offset 3' <out || fail "in words"
expect 2 "$BACKSTEP" diff a stranger
seen 'different programs' <err || fail "which are not the same"
expect 2 "$BACKSTEP" diff a
expect 2 "$BACKSTEP" diff a nowhere
ok
