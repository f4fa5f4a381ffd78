#!/usr/bin/env bash
# The log of a program that makes system calls all the time takes at most a third of its room: compressed while it runs, by a process that
# the program cannot see as a child, in its group, or by its descriptors. The recording stays the same. Where orphans would come to a recorded
# process it is left to `backstep pack`.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile calls <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  char path[4096];
  struct stat st;
  int ends[2];
  if (argc > 2) prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (pipe(ends)) return 2;  // a writer that stays behind would be an endless read at the end
  for (int i = atoi(argv[1]); i > 0; i--) {
    stat(argv[0], &st);
    readlink("/proc/self/exe", path, sizeof path);
    getcwd(path, sizeof path);
  }
  close(ends[1]);
  int n = read(ends[0], path, 1), got = waitpid(-1, NULL, WNOHANG | __WALL);
  printf("read %d, waitpid %d %s\n", n, got, got < 0 ? strerror(errno) : "");
  return 5;
}
C
kind() { dd if="$1" bs=1 skip=4096 count=4 2>/dev/null; }
packed() { [ "$(kind "$1/process-1.log")" = CHNZ ] && [ "$(kind "$1/process-1.2.log")" = CHNZ ]; }
logs() { cat "$1"/process-1*.log | wc -c; }

got=0
"$BACKSTEP" record --no-pack -o raw ./calls 40000 >out 2>err || got=$?
[ $got = 5 ] || fail "ended with $got: $(cat err)"
[ "$(kind raw/process-1.log)" = CHNK ] || fail "--no-pack packs"
got=0
"$BACKSTEP" record -o rec ./calls 40000 >out 2>err || got=$?
[ $got = 5 ] || fail "ended with $got: $(cat err)"
same out <(echo 'read 0, waitpid -1 No child processes') "the program sees somebody: $(cat out)"
comes packed rec || fail "not packed: $(ls -l rec)"
[ "$(logs rec)" -lt $(($(logs raw) / 3)) ] || fail "$(logs rec) bytes of $(logs raw)"
expect 0 "$BACKSTEP" replay --autopilot -q rec
same out "$T/out" "another output: $(cat "$T/out")"

# The same recording, before and after; with checkpoints that know places in it.
"$BACKSTEP" dump raw >before
"$BACKSTEP" checkpoints --make --every 0.1 raw >/dev/null
places() { "$BACKSTEP" count 'syscall getcwd' --from 70% raw; "$BACKSTEP" checkpoints --verify raw; }
places >places.before
expect 0 "$BACKSTEP" pack raw
seen 'saved by compressing' <"$T/out" || fail "pack: $(cat "$T/out")"
"$BACKSTEP" dump raw >after
same before after "pack changed what the log says"
places >places.after
same places.before places.after "checkpoints of a packed log"
expect 0 "$BACKSTEP" replay --autopilot -q raw

# Somebody in the recording adopts orphans.
got=0
"$BACKSTEP" record -o adopts ./calls 15000 adopt >out 2>err || got=$?
same out <(echo 'read 0, waitpid -1 No child processes') "one that adopts orphans: $(cat out)"
[ "$(kind adopts/process-1.log)" = CHNK ] || fail "packed where orphans come to the program"
ok
