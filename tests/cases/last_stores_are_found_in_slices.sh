#!/usr/bin/env bash
# Who looks for the last store to a variable on a busy page learns from short slices of the run which of them wrote to it, and checks
# stores in those alone. What is found is the same, whatever writes: vectors, strings, the kernel, signal frames, other threads.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export BACKSTEP
compile busy -O1 <<'C'
#include <stdio.h>
// All on one page, with something that is written to all the time.
static struct {
  volatile unsigned long work;
  volatile long first, second, never;
} page __attribute__((aligned(4096)));
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 200000; i++) page.work = page.work * 6364136223846793005ul + 1;
}
int main(void) {
  printf("%p %p %p\n", (void*)&page.second, (void*)&page.first, (void*)&page.never);
  fflush(stdout);
  compute();
  page.first = 1;
  for (int i = 0; i < 3; i++) compute();
  page.second = 2;
  compute();
  return 0;
}
C
recorded busy 0
read -ra data <busy.out
# All memory is compared at the ends of slices: what has changed in one must be known.
export BACKSTEP_CHECK_CONTENTS=1
for slice in 0 20000; do
  export BACKSTEP_SLICE=$slice
  serve busy
  rsp last_writes 2 "${data[@]}" >"$slice.writes"
  stop_server
done
unset BACKSTEP_SLICE BACKSTEP_CHECK_CONTENTS
same <(grep '^0x' 0.writes) <(grep '^0x' 20000.writes) "other last writes in slices"
[ "$(grep -c '^0x' 0.writes)" = 5 ] || fail "two stores are found, and three times none: $(cat 0.writes)"
# What the search for the first variable has learnt serves the other ones.
passed() { sed -n 's/.*passed over \([0-9]*\)$/\1/p' "$1.writes"; }
[ "$(passed 0)" = 0 ] || fail "without slices windows of a busy page were passed over: $(cat 0.writes)"
[ "$(passed 20000)" -gt 0 ] || fail "with slices no window was passed over: $(cat 20000.writes)"

for program in hello isa_strings isa_x87 isa_avx2 isa_xsave isa_segments sig_nested sig_altstack jit smc_rwx sys_memory sys_files thr_tls thr_race mem_live; do
  "$BACKSTEP" record -q -o "rec-$program" "$P/$program" >/dev/null 2>&1 </dev/null || true
  PYTHONPATH=$SRC/tests/cases timeout "$PATIENCE" "$PYTHON" -B "$SRC/tests/cases/slices_agree.py" "$T/rec-$program" || fail "$program"
done
ok
