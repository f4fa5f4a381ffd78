#!/usr/bin/env bash
# Programs that catch their own SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP: siglongjmp, alternate stack, edited
# ucontext, write barrier, nested handlers, masks, siginfo.
source "$(dirname "$0")/lib.bash"
for name in sig_longjmp sig_altstack sig_edit sig_barrier sig_skip sig_nested sig_print; do
  same_program $name
  replay_again $name 1 --engine-max-block=1
done
ok
