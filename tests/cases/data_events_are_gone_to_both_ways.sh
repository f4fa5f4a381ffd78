#!/usr/bin/env bash
# Going from access to access of memory comes by the same ones forwards and backwards, and these are the ones that 'log'
# lists: with conditions about the change itself, in eras, of thread-local variables whose memory others have had.
source "$(dirname "$0")/lib.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
cat >data.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
long total;
char text[16];
__thread int mine = 5;
__attribute__((noinline)) void add(long n) { total += n; mine += (int)n; }
void *run(void *a) {
  for (int i = 0; i < 4; i++) add((long)a);
  return 0;
}
int main(void) {
  for (int i = 1; i <= 10; i++) add(i % 3);
  strcpy(text, "a text");
  for (long i = 2; i < 5; i++) {  // one after the other: they get the same memory
    pthread_t t;
    pthread_create(&t, 0, run, (void *)i);
    pthread_join(t, 0);
  }
  snprintf(text, sizeof text, "%ld", total);
  return 0;
}
C
gcc -g -O1 -o data data.c -pthread
expect 0 "$BACKSTEP" record -q -o data.rec ./data
"$PYTHON" - <<'PY' || fail "not the same both ways"
import backstep

def all_of(s, start, way, spec):
    s.goto(start)
    found = []
    while True:
        m = way(spec)
        if m.why != "event":
            return found
        found.append(m)

with backstep.open("data.rec") as s:
    middle = [h.tick for h in s.log("call add")][8]
    for spec, least in [("write total", 22), ("change total", 19), ("write total if $new == 10", 1), ("change total if $old < $new && $new > 20", 5),
                        ("write total if $thread == 3", 4), (f"write total in [{middle},)", 12), ("read total", 22), ("access total if $old == 3", 1),
                        ("change mine", 15), ("write mine if $thread != 1", 12), ("change mine if $new - $old == 4", 4), ("write text", 2),
                        ("change text", 2), ("write &text size 1", 2)]:
        hits = list(s.log(spec))
        assert len(hits) >= least, (spec, len(hits))
        back = [m.at for m in all_of(s, "end", s.backward, spec)]
        assert back == [h.at for h in reversed(hits)], (spec, [h.at for h in hits], back)
        forth = all_of(s, "start", s.forward, spec)
        assert [m.thread for m in forth] == [h.thread for h in hits], (spec, len(forth), len(hits))
        assert all(m.tick >= h.tick for m, h in zip(forth, hits)), spec
PY
ok
