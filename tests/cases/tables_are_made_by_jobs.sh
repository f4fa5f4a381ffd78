#!/usr/bin/env bash
# 'trace --jobs local': the same tables and traces as without jobs, byte for byte; jobs that are killed, or whose results are
# damaged, are run again, and not for ever; a controller that is killed or interrupted leaves nothing that is half valid.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/jobs.bash"
busy_recording
unreliable_program
jobs() { "$BACKSTEP" trace --jobs local --job-seconds 0.01 "$@" run; }

expect 0 jobs
says ' windows made by [0-9]+ jobs$'
made=$(sed -n 's/.* made by \([0-9]*\) jobs.*/\1/p' err)
[ "$made" -gt 4 ] || fail "only $made jobs"
as_expected
expect 0 jobs # there is nothing left to do
! grep -q 'made by' err || fail "tables are made twice: $(cat err)"

# Traces: of the same windows, with the same stores. (Not the same bytes: where the replay pauses, blocks are cut.)
traced() {
  "$BACKSTEP" trace --json run | "$PYTHON" -c '
import json, sys
for w in json.load(sys.stdin): print(w["from"], w["to"], w["level"], w.get("stores"))'
  from=$("$BACKSTEP" sql --csv "SELECT ticks * 96 / 100 FROM processes" run | tail -n 1)
  "$BACKSTEP" sql --csv "SELECT * FROM stores WHERE function = 'main' AND tick > $from" run
}
expect 0 "$BACKSTEP" trace --level 3 --from 95% run
traced >here
mv run/contents traced
cp -r expected run/contents
expect 0 jobs --level 3 --from 95%
says ' windows of level 3 made by [0-9]+ jobs$'
traced >there
[ "$(grep -c ' 3 [0-9]' here)" -gt 1 ] && grep -q ',main,' here || { cat here >&2; fail "there is nothing to compare"; }
diff here there || fail "other traces than without jobs"
expect 0 jobs --level 2 --from 95% # there is nothing left to do
! grep -q 'made by' err || fail "traces are made twice: $(cat err)"
rm -r run/contents

# Of a part; the rest later.
expect 0 jobs --from 50%
[ "$(ls run/contents | wc -l)" -lt "$(ls expected | wc -l)" ] || fail "--from has no effect"
rm -r run/contents

# Killed, and damaged.
printf '%s\n' 1-dies 2-lies 3-says >spoil
expect 0 jobs --job-program "$T/unreliable"
[ ! -s spoil ] || fail "not everything has gone wrong: $(cat spoil)"
says 'job 2 of .* is run again: it left no result \(killed by signal 9\)'
says 'job 3 of .* is run again: .*job-2.tables is not used: it is damaged'
says 'job 4 of .* is run again: it left no result \(exit status 1\)'
says "made by $made jobs, 3 of them run again"
as_expected

# Not for ever; what was made is kept.
rm -r run/contents
printf '%s\n' 1-says 1-says 1-says >spoil
expect 1 jobs --job-program "$T/unreliable" --at-once 1
says 'job 2 of .* \(ticks [0-9]* to [0-9]*\) has failed 3 times: it left no result'
says 'I do not feel like job 1'
[ ! -e run/jobs ] || fail "a failure leaves the folder of jobs"
[ "$(ls run/contents | wc -l)" -gt 0 ] || fail "what other jobs have made is lost"
expect 0 jobs
as_expected
rm -r run/contents
printf '%s\n' 1-says >spoil
expect 1 jobs --job-program "$T/unreliable" --tries 1
expect 1 jobs --job-program "$T/nothing-there"
says 'nothing-there'

# A job looks at what it is given: another build's, or no job at all.
rm -rf run/contents
mkdir keep
cat >keep-job <<SH
#!/bin/bash
cp "\$3" $T/keep/
exec "$BACKSTEP" "\$@"
SH
chmod +x keep-job
expect 0 jobs --job-program "$T/keep-job"
as_expected
sed 's/"build": [0-9]*/"build": 5/' keep/job-0 >keep/other-build
expect 1 "$BACKSTEP" trace --job keep/other-build
says 'another build of backstep'
echo '{"job": 2}' >keep/half
expect 1 "$BACKSTEP" trace --job keep/half
says 'is not a job'
expect 0 "$BACKSTEP" trace --job keep/job-0
[ -s keep/job-0.tables ] || fail "a job by hand has no result"

# The controller is killed: what its jobs have left is taken in by the next one, if it is good.
rm -r run/contents
cat >slow <<SH
#!/bin/bash
"$BACKSTEP" "\$@"
exec sleep 1000
SH
chmod +x slow
start_slow() {
  "$BACKSTEP" trace --jobs local --job-seconds 0.01 --at-once 1 --job-program "$T/slow" run 2>err &
  controller=$!
  result_there() { compgen -G 'run/jobs/*/job-0.tables' >/dev/null; }
  comes result_there || fail "the first job makes nothing"
  asleep() { sleeper=$(pgrep -P $controller -x sleep); }
  comes asleep || fail "the job does not sleep"
}
start_slow
kill -9 $controller
wait $controller 2>/dev/null || true
comes has_ended "$sleeper" || fail "a job outlives its controller"
[ ! -e run/contents ] || fail "there are tables that nobody has gathered"
echo stranger >"$(echo run/jobs/??????)/job-1.tables"
expect 0 jobs
again=$(sed -n 's/.* made by \([0-9]*\) jobs.*/\1/p' err)
[ "$again" -lt "$made" ] || fail "the result of the first job is lost: $again jobs after it, $made in all"
as_expected

# Ctrl-C, and being asked to end.
for signal in INT TERM; do
  rm -r run/contents
  (trap - INT; exec "$BACKSTEP" trace --jobs local --job-seconds 0.01 --at-once 1 --job-program "$T/slow" run 2>err) &
  controller=$!
  comes result_there || fail "the first job makes nothing"
  comes asleep || fail "the job does not sleep"
  kill -$signal $controller
  got=0
  wait $controller 2>/dev/null || got=$?
  [ $got = $((128 + $(kill -l $signal))) ] || fail "SIG$signal ends it with $got"
  says 'jobs are cancelled'
  has_ended "$sleeper" || fail "a job goes on after SIG$signal"
  [ ! -e run/jobs ] || fail "SIG$signal leaves the folder of jobs"
  mkdir -p run/contents
done

# Mistakes.
expect 2 "$BACKSTEP" trace --jobs moon run
expect 2 "$BACKSTEP" trace --jobs ssh run
says '--hosts'
expect 2 "$BACKSTEP" trace --jobs local --hosts a run
expect 2 "$BACKSTEP" trace --jobs local --remove run
expect 2 "$BACKSTEP" trace --jobs local --job-options '"x' run
ok
