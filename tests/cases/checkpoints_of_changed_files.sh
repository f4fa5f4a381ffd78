#!/usr/bin/env bash
# A program that changes a file which it has mapped privately has checkpoints all the same: made by the recorder and by a
# replay they are what a replay finds at those moments, and sessions start from them.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export LIMIT=$PATIENCE
compile live -O1 <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { kPage = 4096, kPages = 12 };
unsigned long sum;
static unsigned char *map;
static volatile unsigned long busy;
__attribute__((noinline)) void round_of(int fd, int i) {
  unsigned char bytes[100];
  memset(bytes, i, sizeof bytes);
  // Pages 0 to 3 are the program's own, the others those of the file.
  map[i % 4 * kPage + i % 1000] = (unsigned char)i;
  if (pwrite(fd, bytes, sizeof bytes, i * 777 % (kPages * kPage - 200)) != sizeof bytes) return;
  if (i % 7 == 0 && (ftruncate(fd, (kPages - 2) * kPage + 5) != 0 || ftruncate(fd, kPages * kPage) != 0)) return;
  for (int k = 0; k < kPages * kPage; k++) sum = sum * 31 + map[k];
  for (int k = 0; k < 1000000; k++) busy += k;
}
int main(void) {
  int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < kPages; i++) {
    char page[kPage];
    memset(page, 'a' + i, sizeof page);
    if (write(fd, page, sizeof page) != sizeof page) return 1;
  }
  map = mmap(0, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  for (int i = 1; i < 300; i++) round_of(fd, i);
  printf("%lu\n", sum);
  return 3;
}
C
# checkpoints NAME LEAST WHO: so many at least were made by the recorder or a replay, and all are good.
checkpoints() {
  expect 0 "$BACKSTEP" checkpoints --verify --json "$1"
  "$PYTHON" - "$2" "$3" <<'PY' || { cat out; fail "$1: not the checkpoints that were expected"; }
import json, sys
found = json.load(open("out"))
sys.exit(not all(c["good"] for c in found) or sum(c["made_by"] == sys.argv[2] and c["used"] for c in found) < int(sys.argv[1]))
PY
}
RECORD_OPTIONS=--checkpoints=0.02 OUTPUT=same REPLAYS=1 record_replay rec-live "$T/live"
checkpoints rec-live 2 record
RECORD_OPTIONS='' OUTPUT=same REPLAYS=1 record_replay later "$T/live"
expect 0 "$BACKSTEP" replay --autopilot --checkpoints=0.02 later
checkpoints later 2 replay

# The very first session starts from them (and may make another one on its way), and is where one without them is.
in_gdb live 'goto 90%' 'print sum' 'info registers rip' 'monitor stored'
printed ' made, [1-9][0-9]* used'
# shellcheck disable=SC2016
grep -E '^\$1 = |^rip' gdb >with
timeout "$PATIENCE" "$BACKSTEP" replay -q --checkpoints 0 "$T/rec-live" -nx -batch -ex 'goto 90%' -ex 'print sum' \
  -ex 'info registers rip' >gdb 2>&1 || fail "gdb ended with $?"
# shellcheck disable=SC2016
grep -E '^\$1 = |^rip' gdb >without
same without with "a session from a checkpoint is elsewhere"
ok
