#!/usr/bin/env bash
# Threads that spin, without any system call, on what another one does; sched_yield and the other sched_* calls.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_spin
same_program thr_woken
same_program thr_sched
program thr_race 4 300000 plain
! grep -q "counter 1200000 of 1200000" thr_race.out || say "no update was lost: the threads ran one after another"
ok
