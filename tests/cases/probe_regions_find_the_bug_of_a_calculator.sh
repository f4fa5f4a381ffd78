#!/usr/bin/env bash
# The session of examples/regions: a crash is found in gdb, one debug region prints the operand stack with a function of the
# program and an output function of its own, a second one the input that was translated; then the cause is known.
source "$(dirname "$0")/lib.bash"
BACKSTEP_INCLUDE="$SRC/include" expect 0 bash "$SRC/examples/regions/session.sh"
cp out session
has() { grep -qE -- "$1" session || { cat session err >&2; fail "the session does not say '$1'"; }; }
has '^#1 .* in execute \(\)'
has '^ 77 s 0$'
has '^ 79 z  \(nothing on the stack\)$'
has '^ 14 is the condition of: for \(…; i < 10; i = i \+ 1\)'
has '^ 79 is the condition of: for \(…; ; i = i \+ 1\)'
[ "$(tail -n 2 session)" = $'1024\n2187' ] || { cat session >&2; fail "the mended program does not work"; }
ok
