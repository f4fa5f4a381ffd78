#!/usr/bin/env bash
# A signal that comes while the recorder's runner goes from one kernel thread to another is not lost: threads that have
# descriptors of their own beside others, the first thread that waits for signals. Every 97th instruction; the soak has all.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/inject/inject.bash"
injected_changes 97
ok
