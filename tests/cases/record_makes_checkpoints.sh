#!/usr/bin/env bash
# record --checkpoints: made while the program runs, they are what a replay finds at those moments; the first debugging
# session starts from them; the program does not notice; and a recorder that is killed leaves nothing that is not usable.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export LIMIT=$PATIENCE
compile loop -O1 <<'C'
#include <stdio.h>
#include <stdlib.h>
static unsigned long table[1 << 15];
unsigned long sum;
__attribute__((noinline)) void round_of(unsigned long seed) {
  for (int i = 0; i < 20000; i++) {
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    table[seed >> 49] += seed;
    sum += table[seed >> 50];
  }
}
int main(int argc, char **argv) {
  for (int i = 0; i < atoi(argv[1]); i++) round_of(i);
  printf("%lu\n", sum);
  return 7;
}
C
# Calls that wait, and calls that move a lot: none of them is ever interrupted or cut short. Pages without any rights, and
# pages that were never touched.
compile calls -O1 <<'C'
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void) {
  int p[2], bad = 0;
  if (pipe(p) != 0) return 1;
  const size_t size = 1 << 20;
  char *data = calloc(1, size), *closed = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *untouched = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(closed, 'x', 1 << 20);
  mprotect(closed, 1 << 20, PROT_NONE);
  if (fork() == 0) {
    close(p[1]);
    while (read(p[0], data, 50000) > 0) continue;
    _exit(0);
  }
  close(p[0]);
  for (int i = 0; i < 60; i++) {
    bad += write(p[1], data, size) != (ssize_t)size;
    bad += poll(0, 0, 1) != 0;
    struct timespec ts = {0, 1000000};
    bad += nanosleep(&ts, 0) != 0;
    for (volatile int k = 0; k < 6000000; k++) continue;
  }
  close(p[1]);
  bad += wait(0) < 0;
  unsigned char in_core[256];
  mincore(untouched, 1 << 20, in_core);
  for (int i = 0; i < 256; i++) bad += in_core[i] & 1;
  mprotect(closed, 1 << 20, PROT_READ);
  for (int i = 0; i < 1 << 20; i++) bad += closed[i] != 'x';
  printf("%d bad, next descriptor %d\n", bad, dup(1));
  return bad != 0;
}
C
# A family of processes, each with work of its own.
compile family -O1 <<'C'
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long sum;
static void work(int n) {
  for (long i = 0; i < n * 80000000l; i++) sum += i;
}
int main(void) {
  work(2);
  for (int i = 1; i <= 2; i++)
    if (fork() == 0) {
      work(2);
      if (i == 2 && fork() == 0) {
        work(2);
        _exit(0);
      }
      while (wait(0) > 0) continue;
      _exit(i);
    }
  int status, all = 0;
  while (wait(&status) > 0) all += WEXITSTATUS(status);
  work(2);
  printf("%d %lu\n", all, sum);
  return 0;
}
C
# made LEAST PROCESSES NAME COMMAND...: so many checkpoints at least, by so many processes. (A busy machine makes fewer: they
# may take only so much of the time.)
made() {
  local least=$1 processes=$2 name=$3
  shift 3
  record_replay "rec-$name" "$@"
  expect 0 "$BACKSTEP" checkpoints --verify --json "rec-$name"
  "$PYTHON" - "$least" "$processes" <<'PY' || { cat out; fail "$name: not the checkpoints that were expected"; }
import json, sys
found = [c for c in json.load(open("out")) if c["made_by"] == "record" and c["good"] and c["used"]]
sys.exit(len(found) < int(sys.argv[1]) or len({c["process"] for c in found}) < int(sys.argv[2]))
PY
}
export RECORD_OPTIONS="--checkpoints=0.01" OUTPUT=same REPLAYS=1
made 2 1 loop "$T/loop" 20000
made 1 1 calls "$T/calls"
made 4 4 family "$T/family"
OUTPUT='' made 1 1 signals "$P/sig_async" 300
OUTPUT='' made 1 1 threads "$P/thr_fork"
OUTPUT='' RECORD_OPTIONS="--checkpoints=0.005 --check=deep" made 1 1 code "$P/thr_jit"
# Engines that count in memory, and chaos, have them as well.
RECORD_OPTIONS="--checkpoints=0.01 --engine-counter=memory" REPLAY_OPTIONS=--engine-counter=memory made 2 1 memory "$T/loop" 20000
OUTPUT='' RECORD_OPTIONS="--checkpoints=0.01 --chaos=5" made 1 1 chaos "$P/thr_race" 4 40000
# Shared memory: none, and that is said.
compile shared -O1 <<'C'
#include <sys/mman.h>
int main(void) {
  long *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (volatile long i = 0; i < 100000000; i++) page[i % 512] += i;
  return 0;
}
C
record_replay rec-shared "$T/shared"
[ "$("$BACKSTEP" info --json rec-shared | field checkpoints.count)" = 0 ] || fail "checkpoints with shared memory"
"$BACKSTEP" info rec-shared | seen 'no checkpoints were made while the program had memory that it shares' ||
  fail "info does not say why there are none"

[ "$("$BACKSTEP" info --json rec-loop | field checkpoints.recorded)" -ge 2 ] || fail "info does not count them"
"$BACKSTEP" info rec-loop | seen 'made while recording' || fail "info does not tell who made them"

# The very first session starts from them, and is where one without them is.
in_gdb loop 'goto 90%' 'print sum' 'info registers rip' 'monitor stored'
printed ' 0 made, [1-9][0-9]* used'
grep -E '^\$1 = |^rip' gdb >with
timeout "$PATIENCE" "$BACKSTEP" replay -q --checkpoints 0 "$T/rec-loop" -nx -batch -ex 'goto 90%' -ex 'print sum' \
  -ex 'info registers rip' >gdb 2>&1 || fail "gdb ended with $?"
grep -E '^\$1 = |^rip' gdb >without
same without with "another state with checkpoints than without"
# From each of some, the recording replays to its end.
for name in signals threads code chaos; do
  ticks=$("$BACKSTEP" checkpoints --json "rec-$name" | "$PYTHON" -c '
import json, sys
print(*[c["at"]["tick"] for c in json.load(sys.stdin) if c["process"] == 1][:6])')
  [ -n "$ticks" ] || fail "$name has no checkpoints"
  serve "$name"
  # shellcheck disable=SC2086
  rsp onwards $ticks >/dev/null
  stop_server
done

# The program's umask and limit on file sizes are no matter.
(umask 0777 && "$BACKSTEP" record -q -o "$T/rec-umask" --checkpoints=0.01 "$T/loop" 8000 >/dev/null) || [ $? = 7 ] ||
  fail "with umask 0777"
expect 0 "$BACKSTEP" checkpoints --verify rec-umask
seen record <out || fail "none with umask 0777"
expect 7 bash -c 'ulimit -f 150; exec "$@"' - "$BACKSTEP" record -q -o "$T/rec-limit" --checkpoints=0.01 "$T/loop" 8000
"$BACKSTEP" info rec-limit | seen 'would take more disk space' || fail "info does not tell of the limit on file sizes"

# A replay to the end makes them, too, if asked.
expect 7 "$BACKSTEP" record -q -o "$T/rec-auto" "$T/loop" 20000
expect 0 "$BACKSTEP" replay --autopilot rec-auto
"$BACKSTEP" checkpoints rec-auto | seen 'has no checkpoints' || fail "autopilot made some without being asked"
expect 0 "$BACKSTEP" replay --autopilot --checkpoints=0.01 rec-auto
same rec-loop.out out "another output when checkpoints are made"
expect 0 "$BACKSTEP" checkpoints --verify --json rec-auto
[ "$(field 2.made_by <out)" = replay ] || fail "autopilot made too few"

# kill -9, at any moment.
random=$((RANDOM))
for ((i = 0; i < 8; i++)); do
  "$BACKSTEP" record -q -o "$T/killed-$i" --checkpoints=0.001 "$T/calls" >/dev/null 2>&1 &
  pid=$!
  sleep "0.$(printf %03d $(((random + i * 97) % 400 + 20)))"
  kill -9 $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
  [ -e "$T/killed-$i/process-1.log" ] || continue
  expect 0 "$BACKSTEP" replay --autopilot "killed-$i"
  expect 0 "$BACKSTEP" checkpoints --verify "killed-$i"
done
# A program that makes no calls has checkpoints behind its last event: they are not used, and do no harm.
"$BACKSTEP" record -q -o "$T/rec-silent" --checkpoints=0.001 "$T/loop" 100000000 >/dev/null 2>&1 &
pid=$!
until [ -e "$T/rec-silent/checkpoints/process-1-3.checkpoint" ]; do
  kill -0 $pid || fail "it ended without three checkpoints"
  sleep 0.05
done
kill -9 $pid
wait $pid 2>/dev/null || true
expect 0 "$BACKSTEP" checkpoints --verify rec-silent
seen 'behind the end of the log' <out || { cat out; fail "the list does not say that they are behind the end"; }
in_gdb silent 'goto end' 'monitor stored'
printed '0 used'
ok
