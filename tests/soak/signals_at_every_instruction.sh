#!/usr/bin/env bash
# A signal behind every single instruction of the recorder's way into each call that waits, with and without threads, to the
# process and to one thread, and of its runner's way from one kernel thread to another.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/inject/inject.bash"
injected_everywhere 1
injected_everywhere 3 threads
# (Some of these windows read files of /proc: more than ten thousand instructions, gone through once for each signal.)
injected_everywhere 41 worker
injected_changes 1
ok
