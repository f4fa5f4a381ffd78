#!/usr/bin/env bash
# One session for all processes of the recording: `process` lists them and changes over, each keeps its own place in time,
# checkpoints and bookmarks; gdb has them as inferiors.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile tree <<'C'
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int value = 1;
void work(int n) { value *= n; }
void *fork_here(void *unused) {
  pid_t p = fork();
  if (!p) {
    for (int i = 2; i < 5; i++) work(i);
    if (!fork()) {
      work(100);
      execl("/bin/sh", "sh", "-c", "exec /bin/true", (char *)0);
    }
    wait(0);
    _exit(0);
  }
  waitpid(p, 0, 0);
  return unused;
}
int main(void) {
  pthread_t t;
  work(7);
  pthread_create(&t, 0, fork_here, 0);
  pthread_join(t, 0);
  work(11);
  return 0;
}
C
recorded tree 0
"$BACKSTEP" ps --json "$T/rec-tree" >"$T/ps"
pid_of() { "$PYTHON" -c 'import json,sys; print(next(p["pid"] for p in json.load(open(sys.argv[1])) if p["number"] == int(sys.argv[2])))' "$T/ps" "$1"; }
child=$(pid_of 2)
in_gdb tree 'process' "process $child" 'break work' 'continue' 'process' 'print n' 'checkpoint' 'bookmark here' 'continue' 'inferior 1' \
  'backtrace 1' 'info checkpoints' 'goto here' 'bookmarks' 'continue' 'print n' 'process #2' 'bookmarks' 'print n' 'info checkpoints' 'restart 1' 'print n' 'goto here' \
  'process #2 end' 'process #2 start' 'print value' 'process #99' 'process nobody'
printed "^\* #1 .* start .*tree\$"
printed "^  #2 +$child  fork "
printed "^\* #2 +$child  fork "
printed '^  #[0-9]+ .* exec +exec [0-9]+ +sh -c exec /bin/true$'
printed '^  #[0-9]+ .* exec +exit 0 +/bin/true$'
printed '^\$1 = 2$'
printed '^there are no checkpoints of yours'
printed 'bookmark here is in process #2'
printed '^here  #2 @[0-9]'
printed '^here  @[0-9]'
printed '^\$2 = 7$'
printed '^\$3 = 3$'
printed '^1  @[0-9]+:0x'
printed '^\$4 = 2$'
printed 'has no process #99'
printed "'nobody' names no process"
# A thread's child has the thread's past, under its own number.
in_gdb tree 'process #2' 'break work' 'continue' 'info threads' 'reverse-continue' 'print n' 'backtrace 1' 'info threads' 'continue' 'print n'
printed "^\* 2\.1 +Thread $child\.$child"
printed '^\$1 = 7$'
printed '^\$2 = 2$'
# From program to program of one process, and back in time over both.
last=$("$PYTHON" -c 'import json,sys; print(max(p["number"] for p in json.load(open(sys.argv[1]))))' "$T/ps")
in_gdb tree "process #$last end" 'info symbol $pc' "process #$((last - 1))" 'info proc exe' 'catch exec' 'reverse-continue' 'break work' \
  'reverse-continue' 'print n' 'process' 'monitor process'
printed 'exe = .*sh'
printed 'Catchpoint 1 .*execve'
printed '^\$1 = 100$'
times 2 '^\* #3 '
# Two at the same time, from the fork on.
in_gdb tree 'set detach-on-fork off' 'break work' 'continue' 'continue' 'info inferiors' 'print n' 'inferior 2' 'print $rax' 'continue' 'print n' \
  'reverse-continue' 'print n' 'reverse-continue' 'inferior 1' 'print n' 'reverse-continue' 'print n' 'reverse-continue'
printed '^  2 +process'
printed '^\$1 = 11$'
printed '^\$2 = 0$'
printed '^\$3 = 2$'
printed '^\$4 = 7$'
printed '^\$5 = 11$'
printed '^\$6 = 7$'
# Without our script: detach, attach, run, kill.
serve tree
timeout "$PATIENCE" gdb -nx -q -batch -ex 'set width 0' -ex 'set remotetimeout 1000' -ex "target extended-remote 127.0.0.1:$port" -ex 'detach' -ex "attach $child" -ex 'break work' \
  -ex 'continue' -ex 'monitor when' -ex 'monitor process' -ex 'kill' -ex 'run' -ex 'print n' >"$T/gdb" 2>&1 || fail "gdb: $(cat "$T/gdb")"
printed 'work \(n=2\)'
printed "^\* #2 +$child"
printed '^\$1 = 7$'
# The next one finds what the last one saw.
timeout "$PATIENCE" gdb -nx -q -batch -ex 'set remotetimeout 1000' -ex "target extended-remote 127.0.0.1:$port" -ex 'print n' -ex 'attach 1' >"$T/gdb" 2>&1 || true
printed '^\$1 = 7$'
printed 'Attaching to .* failed'
stop_server
ok
