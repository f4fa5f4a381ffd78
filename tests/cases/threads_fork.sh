#!/usr/bin/env bash
# fork, posix_spawn, system and popen from a program whose other threads go on.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_fork
ok
