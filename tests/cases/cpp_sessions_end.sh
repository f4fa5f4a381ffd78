#!/usr/bin/env bash
# A program that uses libbackstep is not disturbed by its sessions: searches that are broken off or cancelled, a session that is
# killed, descriptors, signals.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >steps.c <<'C'
__attribute__((noinline)) void step(int n) { __asm__ volatile("" ::"r"(n)); }
int main(void) {
  for (int i = 0; i < 20000; i++) step(i);
}
C
gcc -g -O1 -o steps steps.c
"$BACKSTEP" record -q -o many ./steps
g++ -std=c++20 -Wall -Wextra -Wpedantic -Werror -I "$SRC/include" -I "$BUILD/lib/include" -o ends \
  "$SRC/tests/cases/cpp_sessions_end.cc" -L "$BUILD/lib" -lbackstep -Wl,-rpath,"$BUILD/lib"
printf '#!/bin/sh\necho $$ >pid\nexec "%s" "$@"\n' "$BACKSTEP" >backstep
printf '#!/bin/sh\nexec cat\n' >parrot
chmod +x backstep parrot
# In a group of its own, which gets a Ctrl-C.
BACKSTEP=./backstep expect 0 setsid -w ./ends many
has_ended "$(cat pid)" || fail "a session lives on"
# What is broken off is cancelled, once each.
printf '#!/bin/sh\ntee sent | "%s" "$@"\n' "$BACKSTEP" >backstep
BACKSTEP=./backstep expect 0 ./ends many break
all_cancelled() { [ "$(grep -c '"method":"cancel"' sent)" = 5 ]; }
comes all_cancelled || fail "searches that nobody wants go on: $(cat sent)"
ok
