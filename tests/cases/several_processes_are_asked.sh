#!/usr/bin/env bash
# `-p all` and `-p 2,5`: one question to several processes. What is known of each is what it says when it is asked alone; a
# forked child's history begins with the fork; a program that does not know a function is left out; the sums are right.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >family.c <<'C'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
long sum;
__attribute__((noinline)) void add(long n) { sum += n; }
__attribute__((noinline)) void of_child(long n) {
  add(n);
  add(n);
}
int main(int argc, char **argv) {
  if (argc > 1) {
    for (int i = 0; i < 5; i++) add(i);
    execl("/bin/true", "true", (char *)0);
    return 1;
  }
  for (int i = 0; i < 10; i++) add(i);
  for (int child = 1; child <= 2; child++)
    if (fork() == 0) {
      for (int i = 0; i < 100 * child; i++) of_child(i);
      _exit(0);
    }
  while (wait(0) > 0) {
  }
  if (fork() == 0) execl(argv[0], argv[0], "again", (char *)0);
  wait(0);
  return 0;
}
C
gcc -g -O1 -o family family.c
"$BACKSTEP" record -q -o recordings/family ./family
[ "$("$BACKSTEP" ps --json family | field 5.number)" = 6 ] || fail "these are not six logs"

for windows in '' 100; do
  export BACKSTEP_WINDOW=$windows
  # 1: 10 calls; 2: 200; 3: 400; 4: none, it becomes 5: 5; 6 is another program.
  expect 0 "$BACKSTEP" count --json -p all 'call add' 'call of_child' 'syscall exit_group' family
  "$PYTHON" - <<'PY' || fail "count: $(cat out)"
import json
add, child, ends = json.load(open("out"))
share = lambda answer: {p["process"]: p["count"] for p in answer["processes"]}
assert add["spec"] == "call add" and add["count"] == 615, add
assert share(add) == {1: 10, 2: 200, 3: 400, 4: 0, 5: 5}, add
assert share(child) == {1: 0, 2: 100, 3: 200, 4: 0, 5: 0} and child["count"] == 300, child
assert share(ends) == {1: 1, 2: 1, 3: 1, 4: 0, 5: 0, 6: 1} and ends["count"] == 4, ends
pids = {p["process"]: p["pid"] for p in ends["processes"]}
assert pids[4] == pids[5] == pids[6] and len(set(pids.values())) == 4, pids
PY
  expect 0 "$BACKSTEP" count -p '#2,#3' 'call add' family
  grep -Eq '^600  call add$' out && grep -Eq '^200    #2 family, pid [0-9]+$' out || fail "count as text: $(cat out)"

  # Process by process, what each of them says alone.
  expect 0 "$BACKSTEP" log --json -p all 'call of_child if $arg0 % 30 == 0' '{n}' --stack family
  cp out all
  for number in 1 2 3; do "$BACKSTEP" log --json -p "#$number" 'call of_child if $arg0 % 30 == 0' '{n}' --stack family; done >each
  "$PYTHON" - <<'PY' || fail "log: $(cat all)"
import json
hits = [json.loads(line) for line in open("all")]
assert [(h["process"], h["text"]) for h in hits] == [(2, str(n)) for n in range(0, 100, 30)] + [(3, str(n)) for n in range(0, 200, 30)]
for h in hits:
    assert h.pop("pid") > 0 and h.pop("process") > 0
assert hits == [json.loads(line) for line in open("each")]
PY
  "$BACKSTEP" log -p all 'call of_child' '{n}' --last 1 family | awk '{print $NF}' | paste -sd' ' >last
  [[ "$(cat last)" =~ ^[0-9]+\ 99\ [0-9]+\ 199$ ]] || fail "the last one of each is not: $(cat last)"
  [ "$("$BACKSTEP" log -p all 'call of_child' '{n}' -n 2 family | wc -l)" = 6 ] || fail "two lines and a title of each are not six lines"

  "$BACKSTEP" calls --json -p all of_child family >all
  for number in 2 3; do "$BACKSTEP" calls --json -p "#$number" of_child family; done >each
  "$PYTHON" - <<'PY' || fail "calls: $(head -3 all)"
import json
calls = [json.loads(line) for line in open("all")]
assert [c.pop("process") for c in calls] == [2] * 100 + [3] * 200
assert all(c.pop("pid") for c in calls) and calls == [json.loads(line) for line in open("each")]
PY
  "$BACKSTEP" calls --json --tree -p 2,3 -n 1 of_child family >trees
  "$PYTHON" -c '
import json
trees = [json.loads(line) for line in open("trees")]
assert [(t["process"], t["tree"][0]["function"], t["tree"][0]["count"]) for t in trees] == [(2, "add", 2), (3, "add", 2)], trees' || fail "trees"

  # A profile has the stacks of all, under the names of their programs; coverage what any of them did.
  "$BACKSTEP" profile --folded --period 1 -p all family >folded
  for number in 1 2 3 4 5 6; do "$BACKSTEP" profile --folded --period 1 -p "#$number" family; done | awk '{n += $NF} END {print n}' >sum
  [ "$(awk '{n += $NF} END {print n}' folded)" = "$(cat sum)" ] || fail "the profile of all has not the ticks of each"
  grep -q '^family;.*;of_child;add ' folded && grep -q '^true;' folded || fail "the profile does not name the programs: $(head -3 folded)"
  "$BACKSTEP" profile --json --period 1 -p all family | field processes.5.program | grep -qx true || fail "the profile has no shares"
  "$BACKSTEP" coverage --json -p all family >covered
  "$BACKSTEP" coverage --json family >alone
  "$PYTHON" - <<'PY' || fail "coverage: $(cat covered)"
import json
all, alone = json.load(open("covered"))[0], json.load(open("alone"))[0]
assert {6, 7, 8, 12, 19} <= set(all["executed"]) and not {7, 12, 19} & set(alone["executed"])
assert set(all["executed"]) > set(alone["executed"])
PY
done
unset BACKSTEP_WINDOW

# A stretch: what each has of it. The first process alone has clocks to tell times by; parts of a run always work.
expect 0 "$BACKSTEP" count --json -p all --to 100% 'call add' family
[ "$(field 0.count <out)" = 615 ] || fail "all of each is not all: $(cat out)"
expect 0 "$BACKSTEP" count --json -p all --from +60m 'call add' family
[ "$(field 0.count <out)" = 0 ] || fail "something happened an hour after the end: $(cat out)"
expect 0 "$BACKSTEP" count --json -p all --to +60m 'call add' family
[ "$(field 0.count <out)" = 615 ] || fail "not everything was before: $(cat out)"

# What makes no sense anywhere is said once, with the reason; what needs two processes is refused.
expect 2 "$BACKSTEP" count -p all 'call ad' family
says "no process knows what 'call ad' is; process #1 \(family\): there is no function 'ad'.*did you mean add"
expect 2 "$BACKSTEP" count -p all 'call add then' family
[ "$(wc -l <err)" -le 4 ] || fail "a mistake is told more than once: $(cat err)"
expect 2 "$BACKSTEP" count -p all 'call add then call command_not_there' family
says 'within each process by itself'
expect 2 "$BACKSTEP" log -p all 'call nothing' family
says 'none of 6 processes can answer that; process #1 \(family\): there is no function'
expect 2 "$BACKSTEP" log -p all 'call add' '{nothing}' family
expect 2 "$BACKSTEP" calls -p 1,2 nothing family
expect 2 "$BACKSTEP" count -p 1,99 'call add' family
says 'has no process #99'
expect 2 "$BACKSTEP" count -p '1,' 'call add' family
expect 2 "$BACKSTEP" count -p all --from 1000 'call add' family
says "'1000' is a moment of one process"

# Who reads no more ends it, and nothing stays behind.
"$BACKSTEP" log -p all 'every 1' family | head -n 1 >/dev/null || true
ok
