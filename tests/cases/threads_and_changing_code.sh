#!/usr/bin/env bash
# Code that one thread writes or patches and others run.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
same_program thr_jit
for options in --engine-max-block=1 --engine-counter=memory --engine-no-links --engine-cache=64K; do
  replay_again thr_jit 1 "$options"
done
ok
