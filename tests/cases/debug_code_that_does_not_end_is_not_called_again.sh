#!/usr/bin/env bash
# An endless loop in debug code is ended once, with its line, and that place or callback is not called any more: the others are.
# Ctrl-C ends it at once.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings"
cat >program.c <<'C'
__attribute__((noinline)) void inner(int i) { __asm__ volatile("" : : "r"(i) : "memory"); }
__attribute__((noinline)) void outer(int i) { inner(i + 1); }
int main(void) {
  for (int i = 0; i < 500; i++) outer(i);
  return 0;
}
C
gcc -g -O1 -fno-optimize-sibling-calls -o program program.c
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/program" ./program
export BACKSTEP_DEBUG_SECONDS=0.3
expect 1 "$BACKSTEP" probe --at inner 'if (i == 300)
  for (;;) __asm__ volatile("");' --at outer 'static int calls, inside, ticks;
if (++calls == 1) {
  backstep::on_tick(10, [] {
    if (++ticks == 20) for (;;) sched_yield();
  });
  backstep::on_call("inner", [] { inside++; });
}
if (i == 499) printf("%d %d %d\n", calls, inside, ticks);' program
[ "$(cat out)" = "500 499 20" ] || [ "$(cat out)" = "500 500 20" ] || fail "the others were called: $(cat out)"
[ "$(grep -c 'endless loop' err)" = 2 ] || fail "it is said more than once each: $(cat err)"
grep -q -- '--at inner:2: it has run for 0.3 seconds in one call: an endless loop? From here on it is not called any more' err || fail "the line: $(cat err)"
grep -q -- '--at outer:4: it has run for' err || fail "the callback's line: $(cat err)"
# Ctrl-C.
export BACKSTEP_DEBUG_SECONDS=100000
"$PYTHON" - "$BACKSTEP" <<'PY' || fail "Ctrl-C"
import os, signal, subprocess, sys, time
code = 'fclose(fopen("%s/begun", "w")); for (;;) __asm__ volatile("");' % os.getcwd()
signal.signal(signal.SIGINT, signal.default_int_handler)  # scripts have it ignored
p = subprocess.Popen([sys.argv[1], "probe", "--at", "inner", code, "program"])
while not os.path.exists("begun"):
    assert p.poll() is None, "it has ended by itself"
    time.sleep(0.1)
p.send_signal(signal.SIGINT)
assert p.wait(int(os.environ["PATIENCE"])) != 0, "it was interrupted, and its exit status does not tell"
PY
ok
