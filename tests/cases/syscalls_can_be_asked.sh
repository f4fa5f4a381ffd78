#!/usr/bin/env bash
# backstep syscalls: a program whose calls are known, asked for by name, class and condition, in every form; then
# real programs, threads, processes and moments. All from the logs, so most answers are compared with what the
# program itself knows, or with `dump`.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
need gcc jq

cat >calls.c <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void) {
  char buf[100];
  int fd = open("made.conf", O_RDWR | O_CREAT | O_TRUNC, 0640);
  for (int i = 0; i < 5; i++) write(fd, "0123456789", 10);
  lseek(fd, 0, SEEK_SET);
  while (read(fd, buf, 20) > 0) {}
  close(fd);
  write(fd, "lost", 4);
  open("/nowhere/at/all.conf", O_RDONLY);
  rename("made.conf", "renamed.conf");
  for (int i = 0; i < 3; i++) unlink("renamed.conf");
  write(1, "a text of more than thirty-two bytes, with an end\n", 50);
  return 7;
}
END
gcc -O1 -w -o calls calls.c
expect 7 "$BACKSTEP" record -q -o known ./calls 3>&- # the first descriptor that it opens is 3

# count N [OPTION...] [FILTER]: as many calls are listed.
count() {
  local want=$1 got
  shift
  got=$("$BACKSTEP" syscalls "$@" known | wc -l)
  [ "$got" = "$want" ] || fail "syscalls $*: $got calls instead of $want: $("$BACKSTEP" syscalls "$@" known)"
}
count 7 write
count 7 --json write
count 1 'write if ret < 0'
count 1 --json 'write if ret < 0'
count 1 --failed write
count 1 'write if errno == EBADF'
count 5 'write if count == 10'
count 5 'write if fd == 3 && ret == 10'
count 6 'write if fd == 3'
count 1 'write if buf ~ "a text*"'
count 2 'openat if path ~ "conf" && path !~ "/etc/*"'
count 1 'openat if flags & O_CREAT && mode == 0640'
count 3 unlink
count 2 'unlink if errno == ENOENT'
count 1 '%file if path == "made.conf" && name != "openat"'
count 4 '%file if path ~ "renamed"'
count 4 'read if fd == 3 && count == 20'
count 1 'read if fd == 3 && count == 20 && !ret'
count 1 'exit_group if status == 7'
count 0 'if errno == EPERM'
count 2 'rename,lseek'
count 2 --limit 2 write
count 2 --last 2 unlink

# With nothing said, every call of the log is there (and the end as one), and no more.
logged=$("$BACKSTEP" dump --json -k syscall known | jq -s 'map(select(.result != -513)) | length')
[ "$("$BACKSTEP" syscalls known | wc -l)" = $((logged + 1)) ] || fail "calls are missing: $logged in the log"
"$BACKSTEP" dump --json -k syscall known | jq -r 'select(.result != -513).text' >dumped
"$BACKSTEP" syscalls --json -s 32 known | jq -r 'select(.name != "exit_group").text' >listed
same dumped listed "dump and syscalls print calls differently"

# One line: control point, the call, its result. The control point is one that replay knows.
line=$("$BACKSTEP" syscalls 'write if ret < 0' known)
[[ $line =~ ^@[0-9]+:0x[0-9a-f]+\ +write\(3,\ 0x[0-9a-f]+,\ 4\)\ =\ -1\ EBADF\ \(Bad\ file\ descriptor\)$ ]] || fail "the line is: $line"
at=${line%% *}
tick=${at%%:*} tick=${tick#@}
[ "$("$BACKSTEP" dump --pc -k write known | awk -v at="$at" '$2 == at' | wc -l)" = 1 ] || fail "dump does not know $at"

# JSON.
json=$("$BACKSTEP" syscalls --json 'openat if flags & O_CREAT' known)
jq -e --arg dir "$PWD" '.name == "openat" and .nr == 257 and .args.path == "made.conf" and .args.dirfd == -100 and
  .args.flags == "O_RDWR|O_CREAT|O_TRUNC" and .args.mode == "0640" and .ret == 3 and .error == null and
  .process == 1 and .thread == 1 and .pid > 0 and (.at | startswith("@")) and .tick > 0 and
  (.raw | length) == 4' <<<"$json" >/dev/null || fail "JSON: $json"
json=$("$BACKSTEP" syscalls --json --failed write known)
jq -e '.ret == -1 and .error == "EBADF" and .errno == 9 and (.args.buf | startswith("0x")) and .args.count == 4' <<<"$json" >/dev/null ||
  fail "JSON of a failure: $json"
"$BACKSTEP" syscalls --json exit_group known | jq -e '.ret == null and .args.status == 7' >/dev/null || fail "exit_group"

# Totals.
"$BACKSTEP" syscalls --summary --json known | jq -e 'map({key: .name, value: .}) | from_entries |
  .write.calls == 7 and .write.errors == 1 and .write.bytes == 100 and .write.by_error.EBADF == 1 and
  .unlink.calls == 3 and .unlink.errors == 2 and .unlink.by_error.ENOENT == 2 and .unlink.bytes == 0' >/dev/null || fail "totals"
"$BACKSTEP" syscalls --summary known | seen -E '^ +7 +1 +100  write +EBADF 1$' || fail "totals: $("$BACKSTEP" syscalls --summary known)"
"$BACKSTEP" syscalls --summary known | tail -n 1 | seen -E '^ *[0-9]+ .* total$' || fail "no total"

# Moments: ticks, control points, events, shares, times; [from, to).
all=$("$BACKSTEP" syscalls known | wc -l)
event=$("$BACKSTEP" syscalls --json 'write if ret < 0' known | jq .event)
for moment in "$tick" "@$tick" "$at" "event $event" "event:$event"; do
  before=$("$BACKSTEP" syscalls --to "$moment" known | wc -l)
  behind=$("$BACKSTEP" syscalls --from "$moment" known | wc -l)
  [ $((before + behind)) = "$all" ] || fail "$moment: $before calls before it and $behind behind it are not $all"
done
"$BACKSTEP" syscalls --from "$at" -n 1 known | seen -F "$line" || fail "--from is not the call itself"
"$BACKSTEP" syscalls --to "$at" known | seen EBADF && fail "--to has the call itself"
"$BACKSTEP" syscalls --from "$at" --to end known | tail -n 1 | seen 'exit_group(7) = ?' || fail "--to end"
[ "$("$BACKSTEP" syscalls --from start --to 100% --summary --json known | jq '[.[].calls] | add')" -ge $((all - 1)) ] || fail "0 to 100%"
[ "$("$BACKSTEP" syscalls --from +0s known | wc -l)" = "$all" ] || fail "--from +0s"
[ "$("$BACKSTEP" syscalls --from +1000s known | wc -l)" = 0 ] || fail "--from behind the end"
expect 2 "$BACKSTEP" syscalls --from @99999999999 known
says 'ends at @'
expect 2 "$BACKSTEP" syscalls --from 'event 99999999' known
says 'events 0 to'
expect 2 "$BACKSTEP" syscalls --to nonsense known
says 'neither a control point'

# Which word is the recording: the last one that is one. Names and paths, and without any the latest.
cp -r known ./write
[ "$("$BACKSTEP" syscalls write | wc -l)" = "$all" ] || fail "a recording that is called like a call"
[ "$("$BACKSTEP" syscalls write write | wc -l)" = 7 ] || fail "filter and recording of the same name"
rm -r write
"$BACKSTEP" record -q ./calls >/dev/null || true
[ "$("$BACKSTEP" syscalls unlink | wc -l)" = 3 ] || fail "the latest recording"
[ "$("$BACKSTEP" syscalls unlink calls-1 | wc -l)" = 3 ] || fail "by name"
[ "$("$BACKSTEP" syscalls unlink if ret == 0 calls-1 | wc -l)" = 1 ] || fail "a filter of several words"

# What is wrong is said, with the place.
expect 2 "$BACKSTEP" syscalls 'wriet if ret < 0' known
says "column 1: .*did you mean 'write'"
expect 2 "$BACKSTEP" syscalls 'write if cont > 3' known
says "column 10: .*'count'"
grep -qE '^  {9} *\^$' "$T/err" || fail "no mark below the place: $(cat "$T/err")"
expect 2 "$BACKSTEP" syscalls write recording-that-is-not-there
says "no recording 'recording-that-is-not-there'"
expect 2 "$BACKSTEP" syscalls ./nowhere
says "no recording './nowhere'"

# No colours in a pipe; on a terminal, unless NO_COLOR says no.
"$BACKSTEP" syscalls known | seen $'\033' && fail "colours in a pipe"
on_terminal() {
  "$PYTHON" -c 'import os, pty, sys
pty.spawn(sys.argv[1:], lambda fd: os.read(fd, 65536))' "$BACKSTEP" syscalls --failed write known </dev/null
}
TERM=xterm on_terminal | seen $'\033\\[31m-1 EBADF' || fail "no colours on a terminal"
TERM=xterm NO_COLOR=1 on_terminal | seen $'\033' && fail "NO_COLOR is not heard"

# A reader that leaves ends it without a word, also if SIGPIPE is ignored.
(trap '' PIPE; "$BACKSTEP" syscalls --json known 2>"$T/err" || true) | head -n 1 >/dev/null
[ ! -s "$T/err" ] || fail "it complains about | head: $(cat "$T/err")"

# Threads and processes have names; fork is one call, and execve is one although it never returned.
cat >many.c <<'END'
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void* thread(void* p) { write(1, "thread\n", 7); return p; }
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, thread, 0);
  pthread_join(t, 0);
  if (syscall(SYS_fork) == 0) {
    write(1, "child\n", 6);
    execl("/bin/echo", "echo", "from", "echo", (char*)0);
  }
  wait(0);
  return 0;
}
END
gcc -O1 -w -o many many.c -pthread
expect 0 "$BACKSTEP" record -q -o tree ./many
"$BACKSTEP" syscalls write tree >lines
seen -E '^@[0-9:xa-f]+ +1\.2 +write\(1, "thread\\n", 7\) = 7$' <lines || fail "thread: $(cat lines)"
seen -E '^@[0-9:xa-f]+ +2\.1 +write\(1, "child\\n", 6\) = 6$' <lines || fail "child: $(cat lines)"
seen -E '^@[0-9:xa-f]+ +3\.1 +write\(1, "from echo\\n", 10\) = 10$' <lines || fail "echo: $(cat lines)"
[ "$("$BACKSTEP" syscalls fork tree | wc -l)" = 1 ] || fail "fork: $("$BACKSTEP" syscalls fork tree)"
"$BACKSTEP" syscalls execve tree | seen -E ' 2\.1 +execve\("/[a-z/]*echo", \["echo", "from", "echo"\], \?\) = 0$' ||
  fail "execve: $("$BACKSTEP" syscalls execve tree)"
"$BACKSTEP" syscalls exit tree | seen -E ' 1\.2 +exit\(\?\) = \?$' || fail "the end of a thread"
[ "$("$BACKSTEP" syscalls 'write if thread == 2' tree | wc -l)" = 1 ] || fail "thread == 2"
[ "$("$BACKSTEP" syscalls -p '#3' write tree | wc -l)" = 1 ] || fail "-p"
"$BACKSTEP" syscalls --json tree | jq -r '"\(.process) \(.event)"' | sort -u | wc -l >distinct
[ "$("$BACKSTEP" syscalls tree | wc -l)" = "$(cat distinct)" ] || fail "a call is listed twice"
# What the parent does behind its wait is behind all that its child did.
wait_at=$("$BACKSTEP" syscalls --json 'wait4' tree | jq -r .at)
"$BACKSTEP" syscalls --to "$wait_at" tree | seen '"from echo' || fail "the echo is not before the wait's end"
"$BACKSTEP" syscalls --from "$wait_at" tree | seen '"from echo' && fail "the echo is behind the wait's end"

# A time of the day is one for all processes, each of which has its own ticks.
whole=$("$BACKSTEP" syscalls tree | wc -l)
for moment in +0s +1ms +1000s; do
  before=$("$BACKSTEP" syscalls --to "$moment" tree | wc -l)
  behind=$("$BACKSTEP" syscalls --from "$moment" tree | wc -l)
  [ $((before + behind)) = "$whole" ] || fail "$moment: $before calls before it and $behind behind it are not $whole"
done
[ "$behind" = 0 ] || fail "$behind calls a thousand seconds later"
expect 0 "$BACKSTEP" record -q -o slow sh -c 'sleep 0.3; true'
"$BACKSTEP" syscalls --from +0.2s slow | seen -E ' 2\.1 +exit_group\(0\)' || fail "the end of sleep is not behind 0.2 s"

# Real programs.
expect 2 "$BACKSTEP" record -q -o ls ls /nowhere-at-all
"$BACKSTEP" syscalls '%file if errno == ENOENT && path == "/nowhere-at-all"' ls | seen ENOENT || fail "ls"
"$BACKSTEP" record -q -o python "$PYTHON" -c 'import json; print(json.dumps([1]))' >/dev/null
[ "$("$BACKSTEP" syscalls 'openat if path ~ "*json*" && ret >= 0' python | wc -l)" -ge 1 ] || fail "python"
"$BACKSTEP" syscalls --summary python | seen ' openat ' || fail "totals of python"
ok
