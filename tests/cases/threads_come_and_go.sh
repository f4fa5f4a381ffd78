#!/usr/bin/env bash
# Hundreds of threads, one by one and alive at once; without libc; thread-local storage; names, numbers, CPU time; a main
# that leaves first.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_many
same_program thr_raw
same_program thr_tls
same_program thr_self
same_program thr_main_leaves
ok
