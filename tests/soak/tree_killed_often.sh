#!/usr/bin/env bash
# The case tree_killed with 100 random moments.
ROUNDS=100 SEED=$RANDOM exec bash "$(dirname "$0")/../cases/tree_killed.sh"
