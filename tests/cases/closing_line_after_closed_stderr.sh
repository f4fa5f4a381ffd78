#!/usr/bin/env bash
# Many programs close their standard output and error before they end (all of coreutils does): the closing line
# of `record` still comes, and the status is the program's.
source "$(dirname "$0")/lib.bash"
expect 0 "$BACKSTEP" record -o rec -- /usr/bin/id -u
says 'ticks'
expect 0 "$BACKSTEP" replay --autopilot rec
expect 5 "$BACKSTEP" record -o rec2 -- "$P/sys_fds"
says 'ticks'
expect 0 "$BACKSTEP" replay --autopilot rec2
ok
