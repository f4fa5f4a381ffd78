#!/usr/bin/env bash
# goto: by any text of the output, by the time of the day, to the next or previous thing of a kind, by quantum.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile story -pthread <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
volatile long sum;
volatile int got;
static void spin(void) { for (long i = 0; i < 300000; i++) sum += i; }
static void on(int s) { got = s; }
static void *thread(void *a) { spin(); return a; }
int main(void) {
  char text[300];
  struct timespec t;
  memset(text, '.', sizeof text);
  for (int i = 0; i < 6; i++) {
    snprintf(text + 200, 50, "needle %d\n", i);
    write(1, text, 200 + strlen(text + 200));
    spin();
    clock_gettime(CLOCK_MONOTONIC, &t);
    usleep(30000);
    clock_gettime(CLOCK_REALTIME, &t);
    if (i == 3) dprintf(3, "%ld%09ld\n", (long)t.tv_sec, t.tv_nsec);
  }
  write(1, "piece", 5); write(2, "ERROR", 5); write(1, "meal ", 5); write(2, " ONE", 4); write(1, "line\n", 5);
  signal(SIGUSR1, on);
  raise(SIGUSR1);
  if (!fork()) _exit(0);
  wait(0);
  pthread_t p;
  pthread_create(&p, 0, thread, 0);
  pthread_join(p, 0);
  return 0;
}
C
exec 3>"$T/clock"
recorded story 0
exec 3>&-
# Far behind the first bytes of a write; across writes, in each stream.
in_gdb story 'goto output needle 3' 'up' 'print i' 'goto output needle 1' 'goto start' 'goto output needle 1' 'up' 'print i' \
  'goto start' 'goto output piecemeal li' 'x/s $rsi' 'goto start' 'goto output ERROR ONE' 'x/s $rsi' 'goto output ...needle'
printed '^\$1 = 3$'
printed '^\$2 = 1$'
printed '"piece"$'
printed '"ERROR"$'
times 2 'no output with this text from here on'

# Kinds, both ways.
in_gdb story 'goto next signal' 'print got' 'goto next fork' 'print got' 'goto next thread' 'bt' 'goto next turn' 'goto next fork' \
  'goto previous fork' 'goto previous signal' 'goto previous output' 'x/s $rsi' 'goto previous call clock_gettime' 'up' \
  'print i' 'goto next exec' 'goto next nonsense' 'goto next call nonsense'
printed '^\$1 = 0$'
printed '^\$2 = 10$'
printed 'pthread_create'
printed '"line\\n"$'
printed '^\$3 = 5$'
times 1 'there is no fork behind here'
printed 'there is no exec behind here'
printed 'signal, fork, exec, thread'
printed "there is no system call 'nonsense'"

# Quanta: the tick is one more, or one less.
in_gdb story 'goto output needle 2' 'when' 'step-quantum' 'when' 'step-quantum' 'when' 'stepi' 'reverse-step-quantum' 'when' \
  'reverse-step-quantum' 'when' 'monitor step quantum' 'monitor reverse-step quantum'
mapfile -t ticks < <(sed -n 's/^@\([0-9]*\):.*about.*/\1/p' "$T/gdb")
[ "${#ticks[@]}" = 5 ] || fail "when was printed ${#ticks[@]} times"
[ "$((ticks[1] - ticks[0]))$((ticks[2] - ticks[0]))$((ticks[3] - ticks[0]))$((ticks[4] - ticks[0]))" = 1221 ] ||
  fail "quanta: ${ticks[*]}"

# Times: when the program looked at the clock in its fourth round, in two ways of telling; and in the middle of its nap before.
read -r looked <"$T/clock"
start=$("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["start_ns"])' "$T/rec-story/manifest.json")
clock=$("$PYTHON" -c 'import sys, time; n = int(sys.argv[1])
print(time.strftime("%H:%M:%S", time.localtime(n // 10**9)) + ".%09d" % (n % 10**9))' "$looked")
since=$("$PYTHON" -c 'import sys; print("%.9f" % ((int(sys.argv[1]) - int(sys.argv[2])) / 1e9))' "$looked" "$start")
nap=$("$PYTHON" -c 'import sys; print("%.9f" % ((int(sys.argv[1]) - int(sys.argv[2])) / 1e9 - 0.015))' "$looked" "$start")
in_gdb story "goto $clock" 'when' 'frame function main' 'print i' "goto +${since}s" 'when' "goto +${nap}s" 'frame function main' \
  'print 10 + i' 'info frame' 'goto +1h' 'goto 25:00' 'goto +100s'
mapfile -t places < <(sed -n 's/^\(@[0-9]*:0x[0-9a-f]*\),.*about.*/\1/p' "$T/gdb")
[ "${#places[@]}" = 2 ] && [ "${places[0]%%:*}" = "${places[1]%%:*}" ] || fail "two names of one time: ${places[*]}"
printed '^\$1 = 3$'
printed '^\$2 = 13$'
printed 'this is a guess'
times 2 'a time is HH:MM'
printed 'the last time that this recording knows is'
ok
