#!/usr/bin/env bash
# A profile is of the recording, not of the machine: the same with and without checkpoints, in one window and in many; the
# parts of a run make up the whole; and it shows where the ticks went.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >busy.c <<'C'
static volatile long sum;
__attribute__((noinline)) void inner(long n) { for (long i = 0; i < n; i++) sum += i; }
__attribute__((noinline)) void often() { inner(3000); }
__attribute__((noinline)) void rarely() { inner(1000); }
int main() {
  for (int i = 0; i < 300; i++) often(), rarely();
}
C
gcc -g -O1 -o busy busy.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/busy" ./busy
folded() { expect 0 "$BACKSTEP" profile --folded --period 1000 "$@" busy; }
folded
cp out first
[ -s first ] || fail "nothing was measured"
folded
same first out "a second time"
for window in 100000 33333; do
  BACKSTEP_WINDOW=$window folded
  same first out "in windows of $window ticks"
done
expect 0 "$BACKSTEP" checkpoints --make --every 0.005 busy
folded
same first out "with checkpoints"
expect 0 "$BACKSTEP" checkpoints --remove busy
folded
same first out "without checkpoints"
# Half and half.
ticks=$(ticks_of busy)
folded --to $((ticks / 2))
cp out half
folded --from $((ticks / 2))
"$PYTHON" - first half out "$ticks" <<'PY' || fail "the halves are not the whole"
import collections, sys
def stacks(name):
    return collections.Counter({line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in open(name)})
whole, a, b = map(stacks, sys.argv[1:4])
assert a + b == whole
ticks = int(sys.argv[4])
# One sample stands for a thousand ticks; the first one is at the first of them.
assert ticks <= sum(whole.values()) + 1000 and sum(whole.values()) <= ticks + 1000, (sum(whole.values()), ticks)
often = sum(n for s, n in whole.items() if "main;often;inner" in s)
rarely = sum(n for s, n in whole.items() if "main;rarely;inner" in s)
assert 2.8 < often / rarely < 3.2, (often, rarely)
PY
# As a table, as JSON, as a picture.
expect 0 "$BACKSTEP" profile --period 1000 busy
grep -q 'inner' out || fail "the table: $(cat out)"
expect 0 "$BACKSTEP" profile --json --period 1000 busy
"$PYTHON" -c 'import json; json.load(open("out"))' || fail "no JSON"
expect 0 "$BACKSTEP" profile --svg flames.svg --period 1000 busy
"$PYTHON" -c 'import xml.dom.minidom; xml.dom.minidom.parse("flames.svg")' || fail "no SVG"
ok
