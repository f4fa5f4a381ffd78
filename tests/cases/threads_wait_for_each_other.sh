#!/usr/bin/env bash
# Mutexes, conditions, reader-writer locks, barriers, semaphores; the futex call with all its operations; locks that inherit
# priority, that survive their owner, that are shared through two mappings.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_sync
same_program thr_sync_static
same_program thr_futex
same_program thr_pi
same_program thr_robust
same_program thr_shared
ok
