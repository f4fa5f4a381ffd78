#!/usr/bin/env bash
# A signal kills the process while its last thread that ran is leaving and all others wait.
source "$(dirname "$0")/lib.bash"
cat >leave.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *leaves(void *unused) { return unused; }
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, leaves, 0);
  puts("ready");
  fflush(stdout);
  pause();
}
C
gcc -o leave leave.c -pthread
"$BACKSTEP" record -q -o rec ./leave >out &
recorder=$!
comes [ -s out ] || fail "it does not begin"
sleep 0.3
kill -TERM $recorder
got=0
wait $recorder || got=$?
[ $got = 143 ] || fail "ended with $got, not of SIGTERM"
for _ in 1 2; do
  expect 0 "$BACKSTEP" replay --autopilot --json rec
  says '"complete":true'
done
ok
