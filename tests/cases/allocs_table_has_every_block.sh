#!/usr/bin/env bash
# The table 'allocs' has what the program itself saw: every block that it got, its size, and when it was freed, in several threads, in
# signal handlers, through realloc that moves and that does not, and in a forked process with what its parent had.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >seen.c <<'C'
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// What it sees it writes to a pipe that nobody reads until the end: without allocating.
static int fd;
static void say(const char *what, const void *p, size_t size) {
  char line[100];
  if (write(fd, line, (size_t)snprintf(line, sizeof line, "%s %lu %zu\n", what, (unsigned long)p, size)) < 0) abort();
}
static void *get(size_t n) { void *p = malloc(n); say("malloc", p, n); return p; }
static void give(void *p) { say("free", p, 0); free(p); }
static void on_signal(int s) { (void)s; void *p = get(333); give(p); }
static void *work(void *a) {
  unsigned seed = (unsigned)(long)a;
  void *have[50] = {0};
  for (int i = 0; i < 400; i++) {
    unsigned k = (seed = seed * 1103515245 + 12345) >> 16;
    void **p = &have[k % 50];
    if (*p && k % 3 == 0) { say("free", *p, 0); void *q = realloc(*p, 1 + k % 5000); say("realloc", q, 1 + k % 5000); *p = q; continue; }
    if (*p) give(*p);
    *p = get(1 + k % 3000);
    if (i % 97 == 0) pthread_kill(pthread_self(), SIGUSR1);
  }
  for (int i = 0; i < 50; i++) if (have[i] && i % 5) give(have[i]);
  return NULL;
}
int main(int argc, char **argv) {
  fd = atoi(argv[1]);
  signal(SIGUSR1, on_signal);
  pthread_t t[3];
  for (long i = 0; i < 3; i++) pthread_create(&t[i], NULL, work, (void *)(i + 1));
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  void *inherited = get(4321);
  void *c = calloc(11, 13);
  say("calloc", c, 143);
  pid_t child = fork();
  if (child == 0) { free(inherited); char *own = malloc(12345); own[0] = 1; _exit(own[0] - 1); }
  int status;
  waitpid(child, &status, 0);
  return argc - 2;
}
C
gcc -g -O1 -w -fno-builtin -pthread -o seen seen.c
"$BACKSTEP" record -q -o run ./seen 9 9>seen.txt
"$BACKSTEP" sql run --json "SELECT function, address, size, allocated, freed, freed_by, thread, realloc_of, realloc_to, allocated_at FROM allocs WHERE address IS NOT NULL" >rows
"$PYTHON" - <<'PY' || fail "the table differs from what the program saw"
import json
rows = [json.loads(line) for line in open("rows")]
saw, live, lines = [], {}, [l.split() for l in open("seen.txt")]
for what, address, size in lines:
    address = int(address)
    if what == "free":
        saw[live.pop(address)][3] = True
    else:
        assert address not in live, "the program saw an address twice"
        live[address] = len(saw)
        saw.append([what, address, int(size), False])
# The program's own calls, by function, address and size; ld.so's and libc's are others.
have = {}
for r in rows:
    have.setdefault((r["function"], r["address"], r["size"]), []).append(r["freed"] is not None)
want = {}
for function, address, size, freed in saw:
    want.setdefault((function, address, size), []).append(freed)
assert len(saw) > 1000, len(saw)
for key, freed in want.items():
    assert sorted(have.get(key, [])) == sorted(freed), (key, have.get(key), freed)
by_point = {r["allocated_at"]: r for r in rows}
links = [r for r in rows if r["realloc_of"]]
assert len(links) > 50 and any(r["address"] != by_point[r["realloc_of"]]["address"] for r in links)
assert any(r["address"] == by_point[r["realloc_of"]]["address"] for r in links)
for r in links:
    old = by_point[r["realloc_of"]]
    assert old["realloc_to"] == r["allocated_at"] and old["freed_by"] == "realloc" and old["freed"] == r["allocated"], (r, old)
assert {r["thread"] for r in rows} == {1, 2, 3, 4}
assert sum(r["size"] == 333 for r in rows) >= 5
PY
# No two blocks that lived at the same time overlap.
"$BACKSTEP" sql run --json "SELECT address, size, allocated, freed FROM allocs WHERE address IS NOT NULL" >rows
"$PYTHON" - <<'PY' || fail "blocks overlap"
import json
rows = sorted((json.loads(l) for l in open("rows")), key=lambda r: r["address"])
for i, a in enumerate(rows):
    for b in rows[i + 1:i + 400]:
        if b["address"] >= a["address"] + a["size"]:
            break
        ends = lambda r: r["freed"] if r["freed"] is not None else float("inf")
        assert ends(a) <= b["allocated"] + 100 or ends(b) <= a["allocated"] + 100, (a, b)
PY
# The child knows what its parent had.
[ "$("$BACKSTEP" sql run --csv "SELECT size, freed IS NOT NULL, freed_by FROM allocs WHERE process = 2 AND size IN (4321, 12345) ORDER BY size" | tail -n 2)" = $'4321,1,free\n12345,0,' ] ||
  fail "the child's blocks: $("$BACKSTEP" sql run "SELECT * FROM allocs WHERE process = 2 AND size IN (4321, 12345)")"
expect 0 "$BACKSTEP" allocs --errors -p '#2' run
# Bounds on the time are kept, and stacks are there when asked for.
middle=$("$BACKSTEP" sql run --csv "SELECT allocated FROM allocs WHERE size = 4321" | tail -n 1)
[ "$("$BACKSTEP" sql run --csv "SELECT size FROM allocs WHERE allocated = $middle" | tail -n 1)" = 4321 ] || fail "one tick"
[ "$("$BACKSTEP" sql run --csv "SELECT max(allocated) FROM allocs WHERE allocated <= $middle" | tail -n 1)" = "$middle" ] || fail "up to a tick"
"$BACKSTEP" sql run --csv "SELECT stack, freed_stack FROM allocs WHERE size = 333 LIMIT 1" | seen 'get (seen.c:16) < on_signal (seen.c:18).*give (seen.c:17) < on_signal' || fail "stacks"
ok
