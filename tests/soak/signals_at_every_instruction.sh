#!/usr/bin/env bash
# A signal behind every single instruction of the recorder's way into each call that waits, with and without threads.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/inject/inject.bash"
injected_everywhere 1
injected_everywhere 3 threads
ok
