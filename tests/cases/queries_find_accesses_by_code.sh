#!/usr/bin/env bash
# 'goto … store' and 'load' without an address: of functions, lines and all of the run, by value, address and time, to the access that the tables
# have; what is not known there is a mistake with a place.
source "$(dirname "$0")/lib.bash"
cat >sums.c <<'C'
int total, list[8];
__attribute__((noinline)) void leaf(int x) { list[x & 7] += x; }
__attribute__((noinline)) void step(int x) {
  total += x;
  leaf(total);
}
int main(void) {
  for (int i = 0; i < 12; i++) step(i);
  return 0;
}
C
gcc -g -O1 -o sums sums.c
expect 0 "$BACKSTEP" record -q -o "$T/run" ./sums
"$PYTHON" - "$BACKSTEP" "$T/run" <<'PY' || fail "not what the tables have"
import json, subprocess, sys
def lines(*arguments):
    run = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return run.stdout.splitlines()
def rows(query):
    return [tuple(json.loads(line).values()) for line in lines("sql", "--json", sys.argv[2], query)]
def go(query, *more):
    return lines("query", *more, query, sys.argv[2])
def at(query):
    found = go(query)
    return found[0].split()[0] if found else None
stores = rows("SELECT at, newval, addr, line FROM stores WHERE function IN ('step', 'leaf') ORDER BY tick, function DESC")
leaf = [s for s in stores if s[3] == 2 and s[1] is not None]
loads = rows("SELECT at, value FROM loads WHERE function = 'leaf'")
big = [s for s in leaf if s[1] > 9]
assert len(big) > 3 and len(loads) > 5, (stores, loads)
assert at("goto first forward store where func=<leaf> and newval > 9") == big[0][0]
assert at("goto last backward store 2 where func=<leaf> and newval > 9") == big[-2][0]
assert at("goto first forward store 3 where src=<sums.c:2>") == leaf[2][0]
assert at("goto last backward load where func=<leaf> and newval = %d" % loads[-1][1]) == loads[-1][0]
middle = leaf[5]
assert at(f"goto first forward store where addr == {middle[2]} and newval == {middle[1]}") == next(s for s in leaf if s[1:3] == middle[1:3])[0]
tick = int(leaf[4][0][1:].split(":")[0])
assert at(f"goto first forward store where addr >= &list and addr < &list[8] and tick >= {tick}") == leaf[4][0]
text = go("goto last backward store where func=<leaf>", "--print", "newval", "--print", "addr", "--stack")
assert f"newval = {leaf[-1][1]}" in text[1] and f"addr = {leaf[-1][2]:#x}" in text[2] and "leaf at sums.c:2" in text[3] and "main" in text[5], text
assert at("goto last backward store where func=<leaf> and newval = 987654") is None
PY
expect 2 "$BACKSTEP" query 'goto first forward store where func=<leaf> and total > 3' "$T/run"
says 'what a variable is worth is not known'
expect 2 "$BACKSTEP" query 'goto first forward store where stack=<*,leaf>' "$T/run"
says 'the stack of a store is known where addr='
expect 2 "$BACKSTEP" query 'goto first forward store where addr=&total or newval > 3' "$T/run"
says 'so that nothing can match elsewhere'
ok
