#!/usr/bin/env bash
# Memory that is mapped without rights and can be read later on has not changed then: who asks where its zero comes from is told of the
# mapping, however long ago that was; and what was stored before rights were taken away and given back comes from that store.
# That holds if the memory was moved while it had none.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile rights -O1 <<'C'
#define _GNU_SOURCE
#include <sys/mman.h>
static volatile unsigned long work;
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 3000; i++) work = work + i;
}
volatile int zero, seven, moved_zero, moved_seven, grown;
int main(void) {
  int *fresh = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  compute();
  mprotect(fresh, 8192, PROT_READ | PROT_WRITE);
  fresh[1024] = 7;
  compute();
  mprotect(fresh + 1024, 4096, PROT_NONE);
  compute();
  mprotect(fresh + 1024, 4096, PROT_READ);
  compute();
  zero = fresh[3];
  seven = fresh[1024];
  int *apart = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  apart[1024] = 7;
  compute();
  mprotect(apart, 8192, PROT_NONE);
  int *room = mmap(0, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  compute();
  int *moved = mremap(apart, 8192, 12288, MREMAP_MAYMOVE | MREMAP_FIXED, room + 4096);
  compute();
  mprotect(moved, 12288, PROT_READ);
  compute();
  moved_zero = moved[3];
  moved_seven = moved[1024];
  grown = moved[2048];
  return 0;
}
C
recorded rights 0
origin() { "$BACKSTEP" why "$1" --json rec-rights | "$PYTHON" -c 'import json, sys
(part,) = json.load(sys.stdin)["value"]["parts"]
print(part["origin"]["kind"], part["origin"].get("function"), (part["origin"].get("call") or "").split("(")[0])'; }
[[ "$(origin zero)" = "zero "*"mmap64 mmap" ]] || fail "where the zero is from: $(origin zero)"
[ "$(origin seven)" = "constant main " ] || fail "where the seven is from: $(origin seven)"
[[ "$(origin moved_zero)" = "zero "*"mmap64 mmap" ]] || fail "where the zero that was moved is from: $(origin moved_zero)"
[ "$(origin moved_seven)" = "constant main " ] || fail "where the seven that was moved is from: $(origin moved_seven)"
[[ "$(origin grown)" = "zero "*"mremap mremap" ]] || fail "where the zero behind what was moved is from: $(origin grown)"
ok
