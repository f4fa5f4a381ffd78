#!/usr/bin/env bash
# 'trace --jobs slurm' with a real munged, slurmctld and slurmd: started by this case with its own key, settings and ports, and
# stopped by their pids.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/cases/jobs.bash"
PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd sbatch squeue scancel; do
  have $program || skip "no $program here (apt-get install slurm-wlm munge)"
done
chmod 755 "$T"

pids=()
stop_all() {
  local ended=$? pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do comes has_ended "$pid" || kill -9 "$pid" 2>/dev/null || true; done
  cleanup $ended
}
trap stop_all EXIT

mkdir -m 755 munge
mkdir state spool
head -c 1024 /dev/urandom >munge/key
chmod 600 munge/key
# --force: about the owners of the folders above.
munged --foreground --force --key-file="$T/munge/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" \
  --log-file="$T/munge/log" --seed-file="$T/munge/seed" >munge.out 2>&1 &
pids+=($!)
comes test -S munge/socket || { cat munge.out munge/log >&2; fail "no munged"; }

read -r ctld_port d_port < <("$PYTHON" -c '
import socket
two = [socket.socket() for _ in range(2)]
for s in two: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in two))')
host=$(hostname -s)
cat >slurm.conf <<EOF
ClusterName=backstep
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmdPort=$d_port
AuthType=auth/munge
AuthInfo=socket=$T/munge/socket
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$T/state
SlurmdSpoolDir=$T/spool
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd.pid
SlurmctldLogFile=$T/slurmctld.log
SlurmdLogFile=$T/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
export SLURM_CONF=$T/slurm.conf
slurmctld -D -i >ctld.out 2>&1 &
pids+=($!)
slurmd -D >slurmd.out 2>&1 &
pids+=($!)
idle() { sinfo --noheader --format=%T 2>/dev/null | seen -x idle; }
ready() { idle || { has_ended "${pids[1]}" || has_ended "${pids[2]}"; }; }
comes ready || true
idle || { tail -n 20 ctld.out slurmd.out slurmctld.log slurmd.log >&2; skip "slurmctld and slurmd do not work here"; }

busy_recording
unreliable_program
jobs() { "$BACKSTEP" trace --jobs slurm --job-seconds "${SECONDS_EACH:-0.05}" "$@" run; }
queue_empty() { ! squeue --noheader | seen .; }

say "all is well"
expect 0 jobs
as_expected
comes queue_empty || fail "jobs stay in the queue"

say "jobs are killed, and results damaged"
rm -r run/contents
printf '%s\n' 1-dies 2-lies 3-says >spoil
expect 0 jobs --job-program "$T/unreliable"
[ ! -s spoil ] || fail "not everything has gone wrong: $(cat spoil)"
says 'job 2 of .* is run again: it left no result'
says 'job 3 of .* is run again: .*it is damaged'
as_expected

say "one that is cancelled by somebody else"
rm -r run/contents
cat >slow <<SH
#!/bin/bash
"$BACKSTEP" "\$@" || exit
[ -e $T/hurry ] || exec sleep 1000
SH
chmod +x slow
cat >cancelled <<SH
#!/bin/bash
if [ ! -e $T/hurry ]; then touch $T/started; exec sleep 1000; fi
exec "$BACKSTEP" "\$@"
SH
chmod +x cancelled
"$BACKSTEP" trace --jobs slurm --job-seconds 0.05 --job-program "$T/cancelled" run >out 2>err &
controller=$!
comes test -e started || fail "no job starts"
scancel "$(squeue --noheader --array --states=RUNNING --format=%i | head -n 1)"
said() { grep -q 'is run again' err; }
comes said || fail "nobody has noticed that a job was cancelled"
touch hurry
# The others sleep without having done anything: they, too.
squeue --noheader --array --states=RUNNING --format=%i | xargs -r scancel
wait $controller || { cat err >&2; fail "cancelled jobs are not made up for"; }
as_expected

say "one that never works"
rm -r run/contents
printf '%s\n' 1-says 1-says >spoil
expect 1 jobs --job-program "$T/unreliable" --tries 2
says 'job 2 of .* has failed 2 times'
says 'I do not feel like job 1'
[ ! -e run/jobs ] || fail "a failure leaves the folder of jobs"
comes queue_empty || fail "a failure leaves jobs in the queue"

say "Slurm takes no jobs"
expect 1 jobs --job-options '--partition=nowhere'
says 'Slurm does not take jobs: .*partition'

say "the controller is ended: jobs are cancelled"
rm -rf run/contents started hurry
"$BACKSTEP" trace --jobs slurm --job-seconds 0.05 --job-program "$T/slow" run 2>err &
controller=$!
runs() { squeue --noheader --states=RUNNING | seen .; }
comes runs || fail "no job starts"
kill -TERM $controller
got=0
wait $controller || got=$?
[ $got = 143 ] || fail "SIGTERM ends it with $got"
comes queue_empty || fail "jobs are not cancelled"
[ ! -e run/jobs ] || fail "the folder of jobs stays"

say "the controller is killed: its jobs go on, and what they make is taken in by the next"
rm -rf run/contents
touch hurry
"$BACKSTEP" trace --jobs slurm --job-seconds 0.05 --job-program "$T/slow" run 2>err &
controller=$!
sent() { squeue --noheader | seen .; }
comes sent || fail "no job was sent"
kill -9 $controller
wait $controller 2>/dev/null || true
comes queue_empty || fail "jobs hang"
[ -n "$(ls run/jobs/*/*.tables)" ] || fail "jobs without a controller have made nothing"
expect 0 jobs
as_expected
ok
