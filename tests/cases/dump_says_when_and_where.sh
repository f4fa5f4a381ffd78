#!/usr/bin/env bash
# dump --clock has a column with the time of the day; turns and signals say in which function they came; scripts give their recordings their name;
# options of ours behind DIR are told.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile spins -pthread <<'C'
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
volatile long a, b;
void* other_loop(void* x) {
  for (long i = 0; i < 40000000; i++) a++;
  return x;
}
void on(int n) { b += n; }
int main(void) {
  pthread_t t;
  signal(SIGUSR1, on);
  raise(SIGUSR1);
  usleep(300000);
  pthread_create(&t, 0, other_loop, 0);
  for (long i = 0; i < 40000000; i++) b++;
  pthread_join(t, 0);
  return 0;
}
C
before=$(date +%s)
"$BACKSTEP" record -q -o rec ./spins
after=$(date +%s)
"$BACKSTEP" dump -k turn rec >turns
seen 'turn to thread . in other_loop+0x.* (spins.c:[67])' <turns || fail "no turn in other_loop: $(head turns)"
seen 'turn to thread . in main+0x.* (spins.c:' <turns || fail "no turn in main: $(head turns)"
"$BACKSTEP" dump --json --clock rec >json
"$PYTHON" -c '
import json, sys
before, after = int(sys.argv[1]), int(sys.argv[2]) + 1
times, names = [], set()
for line in open("json"):
    e = json.loads(line)
    times.append(e["time_ns"] / 1e9)
    if e["kind"] == "turn" and "function" in e: names.add(e["function"])
    if e["name"] == "clock_nanosleep": slept = e["time_ns"] / 1e9
assert times == sorted(times), "they go back"
assert before - 1 <= times[0] and times[-1] <= after + 1, (before, times[0], times[-1], after)
assert times[-1] - times[0] >= 0.3
assert {"main", "other_loop"} <= names, names' "$before" "$after" || fail "dump --clock --json"
"$BACKSTEP" dump --clock -n 3 rec | seen -E '^ +0 +@0 +[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]+  1\.1' || fail "$("$BACKSTEP" dump --clock -n 3 rec)"
# Names.
echo 'echo hi' >tool.sh
"$BACKSTEP" record -q sh tool.sh >/dev/null
"$BACKSTEP" ls | seen '^tool.sh-1 ' || fail "named otherwise: $("$BACKSTEP" ls)"
"$BACKSTEP" record -q sh -c 'echo hi' >/dev/null
"$BACKSTEP" ls | seen '^sh-1 ' || fail "named otherwise: $("$BACKSTEP" ls)"
# Options in the wrong place.
for option in '--at end' '-p 2' --check=deep; do
  # shellcheck disable=SC2086
  expect 2 "$BACKSTEP" replay rec $option
  says "in front of the recording's name"
done
ok
