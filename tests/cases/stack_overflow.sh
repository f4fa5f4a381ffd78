#!/usr/bin/env bash
# Endless recursion: SIGSEGV at the end of the stack, at the same place each time; with ulimit -s obeyed.
source "$(dirname "$0")/lib.bash"
ulimit -c 0
ulimit -s 1024
OUTPUT=same record_replay overflow "$P/die" stack-overflow
ok
