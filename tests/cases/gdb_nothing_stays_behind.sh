#!/usr/bin/env bash
# However a session ends, by quit, by kill -9 of gdb or of the server, in the middle of a long run or not: no process and no
# temporary file stays behind.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile long <<'C'
volatile long counter;
int main(void) {
  for (long i = 0; i < 400000000; i++)
    counter += i;
  return 0;
}
C
recorded long 0
mkdir "$T/tmp"
ours() { pgrep -f -- "replay -q $T/rec-long" || true; }
nothing_is_there() { [ -z "$(ours)$(ls -A "$T/tmp")" ]; }
gone() {  # WHAT
  comes nothing_is_there || fail "after $1 there are still: $(ours) $(ls -A "$T/tmp")"
}
# start COMMAND...: gdb with a pipe to it; its process id in $gdb, the server's in $child.
start() {
  rm -f "$T/in" "$T/said"
  mkfifo "$T/in"
  TMPDIR=$T/tmp "$BACKSTEP" replay -q "$T/rec-long" -nx <"$T/in" >"$T/said" 2>&1 &
  gdb=$!
  exec 7>"$T/in"
  printf '%s\n' "$@" 'echo ready\n' >&7
  comes grep -qs "$waits_for" "$T/said" || fail "not said: $waits_for"
  child=$(pgrep -P "$gdb" -f "replay -q $T/rec-long" | head -1)
  [ -n "$child" ] || fail "no server: $(cat "$T/said")"
}
end() {
  exec 7>&-
  wait "$gdb" 2>/dev/null || true
}
waits_for=ready
start 'break main' 'continue'
[ "$(ours | wc -l)" -ge 2 ] || fail "there should be worker processes"
[ -z "$(ls -A "$T/tmp")" ] || fail "the folder should be gone once gdb is connected"
kill -9 "$gdb"
end
gone "kill -9 of gdb"

start
kill -9 "$child"
echo 'stepi' >&7
end
grep -Eq 'Remote connection closed|Target disconnected' "$T/said" || fail "gdb was not told: $(cat "$T/said")"
gone "kill -9 of the server"

# In the middle of a run.
waits_for='Continuing'
start 'set confirm off' 'continue'
sleep 0.2
kill -9 "$gdb"
end
gone "kill -9 of gdb while the program runs"
start 'continue'
kill -9 "$child"
end
gone "kill -9 of the server while the program runs"

need script
# By the terminal's Ctrl-C: gdb stops the run, in the middle of it, and is still there.
rm -f "$T/in" "$T/said"
mkfifo "$T/in"
TERM=dumb script -qec "TMPDIR=$T/tmp '$BACKSTEP' replay -q '$T/rec-long' -nx" /dev/null <"$T/in" >"$T/said" 2>&1 &
gdb=$!
exec 7>"$T/in"
was_said() { [ "$(grep -Ec "$2" "$T/said")" -ge "$1" ]; }
said() {  # N TEXT: waits until it was said so often
  comes was_said "$@" || fail "'$2' was not said $1 times: $(cat "$T/said")"
}
# At once, while gdb still deals with libraries that are being loaded; and later. A condition that is never true, and is not one of those that become code, makes the
# run take so long that the key comes before its end on a busy machine, too.
printf '%s\n' 'set confirm off' 'break 4 if counter % 3 == 7' 'continue' >&7
said 1 'Continuing'
printf '\003' >&7
said 1 'received signal SIGINT'
printf '%s\n' 'goto start' 'tbreak main' 'continue' >&7
said 1 'Temporary breakpoint 2, main'
printf '%s\n' 'continue' >&7
said 3 'Continuing'
sleep 0.1
printf '\003' >&7
said 2 'received signal SIGINT'
printf '%s\n' 'print counter > 0' 'print i < 400000000' 'quit' >&7
end
grep -q '\$2 = 1' "$T/said" || fail "not in the middle: $(cat "$T/said")"
gone "quit"

# A server that is killed before gdb connects cannot remove its folder: the next session does. That of one that lives stays.
mkfifo "$T/hold"
printf '#!/bin/sh\nexec cat "%s"\n' "$T/hold" >"$T/waits"
chmod +x "$T/waits"
exec 8<>"$T/hold"
is_cat() { tr '\0' ' ' <"/proc/$1/cmdline" | grep -q '^cat '; }
wait_for_gdb() {  # starts a session whose gdb never connects: process ids in $gdb and $child, folder in $folder
  BACKSTEP_GDB=$T/waits TMPDIR=$T/tmp "$BACKSTEP" replay -q "$T/rec-long" 8>&- &
  gdb=$!
  comes is_cat "$gdb" || fail "it does not become gdb"
  child=$(pgrep -P "$gdb" | head -1)
  folder=$(ls -A "$T/tmp")
  touch -d '5 minutes ago' "$T/tmp/"*
}
wait_for_gdb
kill -9 "$child"
dead=$gdb
comes has_ended "$child" # nobody waits for it, so it stays a zombie
[ -d "$T/tmp/$folder" ] || fail "the folder of a killed server is gone already"
was=$folder
wait_for_gdb
[ ! -e "$T/tmp/$was" ] || fail "the folder of a killed server is still there"
[ -d "$T/tmp/$folder" ] || fail "no folder"
TMPDIR=$T/tmp "$BACKSTEP" replay -q "$T/rec-long" -nx -batch >"$T/said" 2>&1 || fail "gdb: $(cat "$T/said")"
[ "$(ls -A "$T/tmp")" = "$folder" ] || fail "the folder of a session that lives was removed"
kill "$gdb" "$dead"
exec 8>&-
gone "the last session"
ok
