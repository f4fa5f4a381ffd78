#!/usr/bin/env bash
# Self-modifying code, W^X, remapped code, code written by the kernel, a JIT compiler: exact, and the same
# ticks with one-instruction blocks and a tiny cache.
source "$(dirname "$0")/lib.bash"
for name in smc_rwx smc_wx smc_remap smc_read jit; do
  same_program $name
  replay_again $name 1 --engine-max-block=1
  replay_again $name 1 --engine-cache=64K
done
ok
