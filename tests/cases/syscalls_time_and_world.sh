#!/usr/bin/env bash
# Clocks, sleeping, randomness, ids, limits, uname, and what /proc/self says: the program sees itself.
source "$(dirname "$0")/lib.bash"
program sys_time
program sys_info
ok
