#!/usr/bin/env bash
# Signals to processes and to threads: masks, queues with values, alternate stacks, waiting in a thread of its own,
# interrupted calls, all flags of sigaction, timers, faults that are handled, stopping and going on.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_masks
same_program thr_sigwait
same_program thr_sigflags
same_program thr_timers
same_program thr_faults
same_program thr_stop
ok
