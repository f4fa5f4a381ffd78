#!/usr/bin/env bash
# Two recordings of one machine have one clock, whichever of its clocks the programs read: that nothing has to be added is within what
# the messages allow. (The coarse clocks stand still for milliseconds, so they say when something was at the earliest, no more.)
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >talk.c <<'C'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
// Sends to 1 and receives from 0, in turns, and looks at every clock in between.
static void look(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  clock_gettime(CLOCK_REALTIME_COARSE, &t);
  clock_gettime(CLOCK_MONOTONIC, &t);
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
}
int main(int argc, char **argv) {
  char c = 0;
  for (int i = 0; i < 200; i++) {
    look();
    if ((argc > 1 || i) && read(0, &c, 1) != 1) return 1;
    look();
    if (write(1, &c, 1) != 1) return 1;
  }
  (void)argv;
  return argc == 1 && read(0, &c, 1) != 1;
}
C
gcc -O1 -o talk talk.c
"$PYTHON" - "$BACKSTEP" <<'PY' || fail "the two that talk"
import os, subprocess, sys
there, back = os.pipe(), os.pipe()
def record(host, stdin, stdout, *more):
    return subprocess.Popen([sys.argv[1], "record", "-q", "--host", host, "-o", host, "./talk", *more], stdin=stdin, stdout=stdout)
both = [record("A", back[0], there[1]), record("B", there[0], back[1], "answers")]
sys.exit(any(p.wait() for p in both))
PY
"$BACKSTEP" cluster gather -o run A B >/dev/null
[ "$("$BACKSTEP" cluster sql run --csv 'SELECT count(*) FROM messages WHERE bytes = 1' | tail -n 1)" = 400 ] || fail "not all messages"
"$BACKSTEP" cluster sql run --csv "SELECT clock_least, clock_most FROM hosts WHERE name = 'B'" | tail -n 1 >span
"$PYTHON" -c 'least, most = map(int, open("span").read().split(",")); assert least <= 0 <= most, (least, most)' || fail "the clock of B"
"$BACKSTEP" cluster check run | seen 'was changed' && fail "a clock that nobody has changed"
ok
