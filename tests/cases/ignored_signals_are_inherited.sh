#!/usr/bin/env bash
# Signals that the parent ignored are ignored (nohup, background jobs of a shell), and a replay knows it.
source "$(dirname "$0")/lib.bash"
trap '' INT USR2 HUP
OUTPUT=same record_replay ignored "$PYTHON" -S -c '
import os, signal
print([s.name for s in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP) if signal.getsignal(s) == signal.SIG_IGN])
os.kill(os.getpid(), signal.SIGHUP)
print("alive")'
grep -q SIGUSR2 ignored.out || fail "the test itself is wrong"
ok
