#!/usr/bin/env bash
# Programs that catch their own SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP: siglongjmp, alternate stack, edited
# ucontext, write barrier, nested handlers, masks, siginfo.
source "$(dirname "$0")/lib.bash"
for name in sig_longjmp sig_altstack sig_edit sig_barrier sig_skip sig_nested sig_print; do
  same_program $name
  replay_again $name 1 --engine-max-block=1
done
# Frames where the map says memory, but the file behind it ends before: the program dies of SIGSEGV, as natively.
for way in 0 1 2 3 4 5; do
  OUTPUT=same record_replay behind-$way "$P/sig_behind_the_end" $way
done
grep -qx ready behind-5.out || fail "it did not begin"
ok
