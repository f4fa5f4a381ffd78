#!/usr/bin/env bash
# The case tree_killed with 100 random moments: shells, Python's multiprocessing, redis.
kinds='bash multiprocessing'
if command -v redis-server >/dev/null; then kinds+=' redis'; fi
ROUNDS=${ROUNDS:-100} SEED=${SEED:-$RANDOM} KINDS=$kinds exec bash "$(dirname "$0")/../cases/tree_killed.sh"
