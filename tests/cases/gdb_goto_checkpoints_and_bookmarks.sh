#!/usr/bin/env bash
# Every moment can be named and gone to: control points, events, percents, output, checkpoints, bookmarks.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile story <<'C'
#include <stdio.h>
int chapter;
int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  for (chapter = 1; chapter <= 5; chapter++) printf("chapter %d\n", chapter);
  return 0;
}
C
recorded story 0
in_gdb story 'tbreak main' 'continue' 'when' 'goto end' 'when' 'goto start' 'goto output 3' 'goto output chapter 3' \
  'print chapter' 'checkpoint third' 'bookmark middle' 'goto output chapter 5' 'print chapter' 'restart 1' \
  'print chapter' 'info checkpoints' 'goto 100%' 'goto middle' 'print chapter' 'bookmarks' 'last-write chapter' \
  'print chapter' 'stepi' 'print chapter' 'goto @999999999' 'goto nowhere' 'goto event 99999' 'monitor nonsense' \
  'monitor help' 'delete checkpoint 1' 'info checkpoints' 'monitor maps'
printed '^@[0-9]+:0x[0-9a-f]+, event [0-9]+, [0-9.]+ % of the run, about [0-9:.]+ \(\+[0-9.]+ s\)$'
printed '100.0 % of the run'
for n in 1 3 4; do printed "^\\\$$n = 3\$"; done
printed '^\$2 = 5$'
printed '^1  @[0-9]+:0x[0-9a-f]+  event [0-9]+  third$'
printed '^middle  @'
printed 'last write of chapter: thread 1 "story" in main'
printed '^\$5 = 2$'
printed '^\$6 = 3$'
printed 'the recording ends at @'
printed "'nowhere' is neither"
printed 'the log has events 0 to'
printed "'nonsense' is not a command"
printed 'goto @TICK'
printed '^checkpoint 1 deleted$'
printed 'there are no checkpoints of yours'
printed 'r-xp .*story$'
# Bookmarks are in the recording: the next session has them, and a control point means the same there.
point=$(sed -n 's/^middle  \(@[^ ]*\) .*/\1/p' gdb)
in_gdb story 'goto middle' 'print chapter' 'goto start' "goto $point" 'print chapter' 'when' 'monitor delete middle' 'bookmarks'
times 2 '^\$[12] = 3$'
printed "^$point, event"
printed 'there are no bookmarks'
ok
