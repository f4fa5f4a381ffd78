#!/usr/bin/env bash
# A table of contents says of each window of a run exactly which words were written to and which code was executed: whoever looks
# for a variable on a busy page, or for a function, replays only the windows that have an answer, and finds the same as without.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
# What slices say (last_stores_are_found_in_slices) lets windows be passed over without tables.
export BACKSTEP_SLICE=0
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
__attribute__((noinline)) long seldom(long n) { return n + page.work % 3; }
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 2000000; i++) page.work = page.work * 6364136223846793005ul + 1;
}
int main(void) {
  printf("%p %p %p %p %p\n", (void*)&page.set, (void*)&page.undone, (void*)&page.read, (void*)&page.tail, (void*)page.text);
  fflush(stdout);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 4; i++) compute();
    page.set = seldom(round);
    for (int i = 0; i < 4; i++) compute();
    page.undone = 7, page.undone = 0;
    compute();
    int fds[2];
    if (pipe(fds) == 0 && write(fds[1], "12345678", 8) == 8) read(fds[0], (void*)&page.read, 8);
    for (int i = 0; i < 4; i++) compute();
    // A string instruction, and one byte of a word.
    char* to = page.text + 16;
    size_t n = 20;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"('x' + round) : "memory");
    compute();
    ((volatile char*)&page.tail)[5] = round + 1;
    for (int i = 0; i < 4; i++) compute();
  }
  return 0;
}
C
recorded words 0
"$BACKSTEP" checkpoints --make --every 0.004 rec-words >/dev/null || fail "no checkpoints"
read -ra data <words.out
spec='write page.set'
ask() {  # NAME
  "$BACKSTEP" log "$spec" '{$old} {$new} {$thread}' rec-words >"$1.log" || fail "cannot log"
  "$BACKSTEP" log 'change page.read' '{$old} {$new}' rec-words >>"$1.log" || fail "cannot log changes"
  "$BACKSTEP" count 'write page.undone' 'write page.tail' 'call seldom' 'write page.text' rec-words >"$1.count" || fail "cannot count"
  serve words
  rsp last_writes 4 "${data[@]}" >"$1.writes"
  stop_server
}
passed() { sed -n 's/.*passed over \([0-9]*\)$/\1/p' "$1.writes"; }
ask before
[ "$(wc -l <before.log)" = 3 ] || fail "two stores and a change are logged: $(cat before.log)"
"$BACKSTEP" trace rec-words | seen 'no windows yet' || fail "there are windows already"
# Copies of all memory are compared with what the tables say.
BACKSTEP_CHECK_CONTENTS=1 "$BACKSTEP" trace --level 1 --json rec-words >windows.json || fail "cannot make tables"
"$PYTHON" - windows.json <<'PY' || fail "windows with gaps"
import json, sys
windows = json.load(open(sys.argv[1]))
assert len(windows) > 10, len(windows)
for a, b in zip(windows, windows[1:]):
    assert a["to"] == b["from"], (a, b)
PY
ask after
same before.log after.log "other stores with tables of contents"
same before.count after.count "other counts with tables of contents"
same <(grep '^0x' before.writes) <(grep '^0x' after.writes) "other last writes with tables of contents"
[ "$(passed after)" -gt "$(($(passed before) + 20))" ] || fail "windows were not passed over: $(passed before), then $(passed after)"

# What is there is not made again; a table that is damaged is as good as none, and is told of.
"$BACKSTEP" trace --level 1 rec-words | seen ' windows, ' || fail "the second time fails"
for file in "$T"/rec-words/contents/*.contents; do
  printf 'damage' | dd of="$file" bs=1 seek=130 conv=notrunc status=none
done
ask damaged 2>damaged.err
same before.log damaged.log "other stores with damaged tables"
same before.count damaged.count "other counts with damaged tables"
seen 'table of contents .* is not used: it is damaged' <damaged.err || fail "nobody says that tables are damaged: $(cat damaged.err)"
"$BACKSTEP" trace --remove rec-words | seen freed || fail "cannot remove them"
"$BACKSTEP" trace rec-words | seen 'no windows yet' || fail "they are still there"
! "$BACKSTEP" trace --level 4 rec-words 2>err || fail "there is a level 4"
seen -- --level <err || fail "no word about the level: $(cat err)"

# Programs of all kinds, in many small windows, with all memory compared: whatever is written, by whomever, is known.
mkdir all
for program in hello isa_strings isa_x87 isa_avx2 isa_xsave isa_segments sig_nested sig_altstack jit smc_rwx sys_memory sys_files thr_tls thr_race mem_live; do
  "$BACKSTEP" record -q -o "$T/all/$program" "$P/$program" >/dev/null 2>&1 </dev/null || true
  BACKSTEP_CHECK_CONTENTS=1 BACKSTEP_WINDOW=9000 "$BACKSTEP" trace --level 1 "$T/all/$program" >out 2>&1 || fail "$program: $(cat out)"
  seen ' windows, ' <out || fail "$program has no windows: $(cat out)"
done
ok
