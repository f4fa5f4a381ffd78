#!/usr/bin/env bash
# What recorded processes see of each other in /proc is what each sees of itself, and nothing of ours.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
OUTPUT=same record_tree looks "$P/tree_proc"
RECORD_OPTIONS=--chaos=5 REPLAYS=1 record_tree chaos "$P/tree_proc"
# shellcheck disable=SC2010
! ls looks | seen '^shown' || fail "files about processes that have ended were left behind"

# The usual readers, on a shell and its child: what they print of them is what it is natively.
need ps pgrep top
cat >readers.sh <<'SH'
trap 'echo none' USR1
env -i ONLY=this sleep 1000 &
p=$!
until [ "$(cat /proc/$p/comm)" = sleep ]; do :; done
for about in comm,nlwp,ignored,caught,blocked,args; do ps -o $about -p "$p,$$"; done
pgrep -P $$ -l sleep | cut -d ' ' -f 2
top -b -n 1 -p "$p" | awk 'END { print $NF }'
readlink "/proc/$p/exe" "/proc/$$/exe"
for f in cmdline environ; do tr '\0' '\n' <"/proc/$p/$f" | sort; done
xargs -0 echo </proc/$$/cmdline
awk '{ print $1, $2 }' /proc/$p/limits | head -n 3
# Names and rights; how often the kernel has which is a matter of how programs are loaded.
awk '$6 ~ /sleep|libc|stack|heap/ { print $2, $6 }' "/proc/$p/maps" | sort -u | grep -v 'r--p.*sleep'
echo /proc/$p/task/* | wc -w
for fd in /proc/$p/fd/[0-2]; do readlink "$fd"; done | sed 's/[^/]*$//' | sort -u
kill $p
wait $p 2>/dev/null
exit 0
SH
chmod +x readers.sh
OUTPUT=same record_tree readers sh "$T/readers.sh"
# A script: its command line has the interpreter in front.
{ echo "#!$(command -v sh)" && sed -n '/^xargs/p' readers.sh; } >script
chmod +x script
OUTPUT=same record_tree interpreted sh -c "'$T/script'; cat /proc/\$PPID/comm >/dev/null"
ok
