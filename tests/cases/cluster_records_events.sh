#!/usr/bin/env bash
# What processes of a run did by themselves is recorded during replays: user events that the program marks, assignments, labels, any
# event. It adds up, what was recorded twice is there once, it can be removed, and it has its place in the causal order.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >lease.c <<'C'
#include <backstep/mark.h>
#include <sys/wait.h>
#include <unistd.h>
// Two processes pass a lease to each other; in the third round the child takes it without waiting for it.
static volatile int held;
static void hold(int round) {
  BACKSTEP_MARK_VALUE(taken, round);
  held = round;
  BACKSTEP_MARK(released);
}
int main(void) {
  int there[2], back[2];
  char c = 0;
  if (pipe(there) || pipe(back)) return 1;
  const int child = fork() == 0;
  for (int round = 1; round <= 3; round++) {
    BACKSTEP_MARK_BEGIN(round);
    if (!child) {
      hold(round);
      if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 2;
    } else {
      if (round < 3 && read(there[0], &c, 1) != 1) return 3;
      hold(round * 10);
      if (write(back[1], &c, 1) != 1) return 4;
    }
    BACKSTEP_MARK_END(round);
  }
  return child ? 0 : wait(0) < 0;
}
C
gcc -g -O1 -I "$SRC/include" -o lease lease.c
objdump -d lease --disassemble=hold | grep -q call && fail "a mark calls something"
"$BACKSTEP" record -q --host A -o run ./lease
tree_ended run
events() { "$BACKSTEP" cluster events run "$@"; }
sql() { "$BACKSTEP" cluster sql run --csv "$1" | tail -n +2; }

expect 0 events 'record * user-event'
[ "$(sql "SELECT process, kind, count(*) FROM events WHERE kind LIKE 'user%' GROUP BY 1, 2")" = "A/lease,user-event,6
A/lease,user-event-begun,3
A/lease,user-event-ended,3
A/lease.1,user-event,6
A/lease.1,user-event-begun,3
A/lease.1,user-event-ended,3" ] || fail "the marks: $(sql "SELECT process, kind, what FROM events WHERE kind LIKE 'user%'")"
[ "$(sql "SELECT what, source FROM events WHERE process = 'A/lease.1' AND what LIKE 'taken%' ORDER BY tick LIMIT 1")" = \
  "taken: 10,lease.c:$(grep -n 'taken' lease.c | cut -d: -f1)" ] || fail "the first one: $(events 'A/lease.1' user-event)"

# Cumulative, and the same again is there once.
expect 0 events 'record A/lease held assignment-to-variables'
expect 0 events record A/lease held assignment-to-variables
[ "$(sql "SELECT what FROM events WHERE kind = 'assignment-to-variables' ORDER BY tick")" = "held: 0 -> 1
held: 1 -> 2
held: 2 -> 3" ] || fail "assignments: $(sql "SELECT what FROM events")"
expect 0 events 'record A/lease.1 hold reaching-a-label' --value round
[ "$(sql "SELECT what FROM events WHERE kind = 'reaching-a-label' ORDER BY tick")" = "hold: 10
hold: 20
hold: 30" ] || fail "a label: $(sql "SELECT what FROM events")"
expect 0 events 'record A/* syscall read before if $rdi > 2'
[ "$(sql "SELECT count(*) FROM events WHERE kind = 'event'")" -ge 5 ] || fail "any event"
[ "$(sql "SELECT count(*) FROM events WHERE kind LIKE 'user%'")" = 24 ] || fail "what was there is gone"

# No two hold the lease at overlapping causal times: but in the third round they do.
overlapping="WITH t AS (SELECT process, what, tick, event, row_number() OVER (PARTITION BY process ORDER BY tick) AS n FROM events
    WHERE kind = 'user-event' AND what LIKE 'taken%'),
  r AS (SELECT process, event, row_number() OVER (PARTITION BY process ORDER BY tick) AS n FROM events WHERE kind = 'user-event' AND what = 'released'),
  held AS (SELECT t.process, t.what, t.event AS taken, r.event AS released FROM t JOIN r ON t.process = r.process AND t.n = r.n)
  SELECT a.what, b.what FROM held a JOIN held b ON a.process < b.process
   WHERE NOT happened_before(a.process, a.released, b.process, b.taken) AND NOT happened_before(b.process, b.released, a.process, a.taken)"
[ "$(sql "$overlapping")" = "taken: 3,taken: 30" ] || fail "who overlaps: $(sql "$overlapping")"

# It is forgotten again, by the same words.
expect 0 events 'forget A/lease held assignment-to-variables'
seen '^3 events forgotten' <"$T/out" || fail "forgotten: $(cat "$T/out")"
[ "$(sql "SELECT count(*) FROM events WHERE kind = 'assignment-to-variables'")" = 0 ] || fail "it is still there"
expect 0 events --recorded
seen 'A/lease.1 .*user-event-begun .*round .*3' <"$T/out" || fail "the list: $(cat "$T/out")"

# What the logs say need not be recorded, and has the thesis's names, too.
expect 0 events 'record A/lease task-done'
seen 'process-done' <"$T/out" || fail "task-done: $(cat "$T/out")"

# What is wrong is said; a damaged file, too.
expect 2 events record
expect 2 events 'record A/lease assignment-to-variables'
says "assignment-to-variables of what"
expect 2 events 'record B/lease user-event'
says "the run has no process 'B/lease'"
expect 1 events 'record A/lease nothing user-event'
says 'no such mark'
expect 1 events 'record A/lease nothing assignment-to-variables'
echo '{' >run/events/0.json
expect 1 events
says 'has no recorded events'
ok
