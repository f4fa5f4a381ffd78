#!/usr/bin/env bash
# What traces of windows (levels 2 and 3) say of stores is what a replay says: all of them, those to some memory, of some code or
# of one thread; the last one to a word; the log of a variable. With all windows traced or only some, reduced to level 2 or
# not; and a trace that is damaged is told of, not believed, and made again.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile words -O1 <<'C'
#include <stdio.h>
#include <string.h>
#include <unistd.h>
// All on one page, with something that is written to all the time.
static struct {
  volatile unsigned long work;
  volatile long set, undone, read, tail;
  char text[64];
} page __attribute__((aligned(4096)));
static char large[20000];
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 150000; i++) page.work = page.work * 6364136223846793005ul + 1;
}
int main(void) {
  printf("%p %p %p %p %p\n", (void*)&page.set, (void*)&page.undone, (void*)&page.read, (void*)&page.tail, (void*)page.text);
  fflush(stdout);
  for (int round = 0; round < 2; round++) {
    compute();
    page.set = round + 5;
    compute();
    page.undone = 7, page.undone = 0;
    int fds[2];
    if (pipe(fds) == 0 && write(fds[1], "12345678", 8) == 8) read(fds[0], (void*)&page.read, 8);
    compute();
    char* to = page.text + 16;
    size_t n = 20;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"('x' + round) : "memory");
    to = large, n = sizeof large;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(round) : "memory");
    ((volatile char*)&page.tail)[5] = round + 1;
    compute();
  }
  return large[7] - 1;
}
C
recorded words 0
"$BACKSTEP" checkpoints --make --every 0.001 rec-words >/dev/null || fail "no checkpoints"
read -ra data <words.out
ask() {  # NAME
  "$BACKSTEP" log 'write page.set' '{$old} {$new} {$thread}' rec-words >"$1.log" || fail "cannot log"
  "$BACKSTEP" log 'change page.read' '{$old} {$new}' rec-words >>"$1.log" || fail "cannot log changes"
  "$BACKSTEP" count 'write page.undone' 'write page.tail' 'write page.text' rec-words >"$1.count" || fail "cannot count"
  for which in "${data[0]}" "${data[2]}" "${data[4]}"; do
    "$BUILD/accesses" --stores --data "$which:$((which + 24))" rec-words || fail "no stores"
  done >"$1.stores"
  "$BUILD/accesses" --stores --data "${data[0]}:$((${data[0]} + 1))" --from 200000 --to 900000 rec-words >>"$1.stores" || fail "no stores of a part"
  serve words
  rsp last_writes 4 "${data[@]}" >"$1.writes"
  stop_server
}
agree() {  # NAME
  ask "$1" 2>"$1.err"
  for what in log count stores; do same "before.$what" "$1.$what" "$1: other answers ($what)"; done
  same <(grep '^0x' before.writes) <(grep '^0x' "$1.writes") "$1: other last writes"
}
levels() { "$BACKSTEP" trace --json rec-words | "$PYTHON" -c 'import json, sys; print(*sorted({w["level"] for w in json.load(sys.stdin)}))'; }
ask before
"$BUILD/accesses" --stores rec-words >before.all || fail "no stores at all"
"$BACKSTEP" trace --level 2 rec-words >/dev/null || fail "no level 2"
[ "$(levels)" = 2 ] || fail "not all windows have level 2: $(levels)"
agree level-2
"$BACKSTEP" trace --level 3 --from 50% rec-words >/dev/null || fail "no level 3"
[ "$(levels)" = "2 3" ] || fail "not some windows have level 3: $(levels)"
agree some-of-level-3
"$BACKSTEP" trace --level 3 rec-words >/dev/null || fail "no level 3"
[ "$(levels)" = 3 ] || fail "not all windows have level 3: $(levels)"
agree level-3
"$BUILD/accesses" --stores rec-words >after.all || fail "no stores from traces"
same before.all after.all "other stores"
# The list counts as many.
"$BACKSTEP" trace --json rec-words | "$PYTHON" -c '
import json, sys
rows = json.load(sys.stdin)
assert sum(w["stores"] for w in rows) == int(sys.argv[1]), (sum(w["stores"] for w in rows), sys.argv[1])
' "$(($(wc -l <after.all) - 1))" || fail "the list counts other stores"

# A damaged one is told of; the next time it is made again.
for file in "$T"/rec-words/contents/*.stores; do
  printf 'damage' | dd of="$file" bs=1 seek=150 conv=notrunc status=none
done
agree damaged
seen 'the trace .* is not used: it is damaged' <damaged.err || fail "nobody says that traces are damaged: $(cat damaged.err)"
"$BACKSTEP" trace --level 3 rec-words >/dev/null 2>&1 || fail "cannot make them again"
agree again
# (What `accesses` has made is another program's.)
! grep -v 'checkpoints* \(is\|are\) not used: another build' again.err || fail "there is still something wrong with them"

# Little room: some are reduced, then most are gone; the answers stay.
size=$(cat "$T"/rec-words/contents/*.stores | wc -c)
"$BACKSTEP" trace --budget "$((size / 2))" rec-words >/dev/null || fail "cannot reduce them"
[ "$(cat "$T"/rec-words/contents/*.stores | wc -c)" -le $((size / 2)) ] || fail "they take more room than they may"
agree reduced
"$BACKSTEP" trace --budget 0 rec-words >/dev/null || fail "cannot reduce them to nothing"
[ "$(levels)" = 1 ] || fail "there is more than level 1 left: $(levels)"
! "$BACKSTEP" trace --level 3 --budget lots rec-words 2>err || fail "lots is a size"
seen 'is no size' <err || fail "no word about the size: $(cat err)"

# Programs of all kinds, in many small windows.
mkdir all
for program in isa_strings sig_nested smc_rwx thr_race mem_live; do
  "$BACKSTEP" record -q -o "$T/all/$program" "$P/$program" >/dev/null 2>&1 </dev/null || true
  "$BUILD/accesses" --stores "$T/all/$program" >before || fail "$program: no stores"
  BACKSTEP_WINDOW=9000 "$BACKSTEP" trace --level 3 "$T/all/$program" >out 2>&1 || fail "$program: $(cat out)"
  seen ' windows, ' <out || fail "$program has no windows: $(cat out)"
  "$BUILD/accesses" --stores "$T/all/$program" >after || fail "$program: no stores from its trace"
  same before after "$program: other stores"
done
ok
