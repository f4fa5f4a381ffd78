#!/usr/bin/env bash
# 'trace --jobs ssh': jobs through GNU parallel and a real sshd, which this case starts for itself on a port of its own, with its
# own keys and settings. Nothing of the user's ~/.ssh is read or written.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/cases/jobs.bash"
sshd=$(command -v sshd || echo /usr/sbin/sshd)
{ [ -x "$sshd" ] && have ssh && have ssh-keygen; } || skip "no sshd here (apt-get install openssh-server)"
{ have parallel && parallel --will-cite --version 2>/dev/null | seen 'GNU parallel'; } || skip "no GNU parallel (apt-get install parallel)"
have rsync || skip "no rsync (apt-get install rsync)"
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd 2>/dev/null || skip "sshd as root wants /run/sshd"

ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f me
cp me.pub authorized
mkdir home
start_sshd() {  # on a free port
  port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >sshd_config <<EOF
Port $port
ListenAddress 127.0.0.1
HostKey $T/host
AuthorizedKeysFile $T/authorized
PidFile $T/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
MaxStartups 100
# parallel makes its folders where a session begins: not in the user's home.
ForceCommand cd $T/home && eval "\$SSH_ORIGINAL_COMMAND"
EOF
  "$sshd" -D -e -f "$T/sshd_config" 2>sshd.log &
  sshd_pid=$!
  echo "[127.0.0.1]:$port $(cat host.pub)" >known
  cat >ssh_config <<EOF
Host here there
  HostName 127.0.0.1
  HostKeyAlias [127.0.0.1]:$port
  Port $port
  User $(id -un)
  IdentityFile $T/me
  IdentitiesOnly yes
  UserKnownHostsFile $T/known
  StrictHostKeyChecking yes
  BatchMode yes
EOF
  answers() { ssh -F "$T/ssh_config" here true 2>ssh.err; }
  comes answers || { cat sshd.log ssh.err >&2; fail "no sshd"; }
}
trap 'kill $sshd_pid 2>/dev/null || true; cleanup' EXIT
start_sshd
# parallel keeps what it knows of hosts below HOME, and on the hosts makes its folders there.
export HOME=$T/home PARALLEL_HOME=$T/home PARALLEL_SSH="ssh -F $T/ssh_config" TMPDIR=$T
busy_recording
unreliable_program
jobs() { "$BACKSTEP" trace --jobs ssh --job-seconds 0.05 --at-once 2 "$@" run; }

say "all is well"
expect 0 jobs --hosts here
as_expected
rm -r run/contents
printf '%s\n' here there >hosts
expect 0 jobs --hosts hosts
as_expected

say "jobs are killed, and results damaged"
rm -r run/contents
printf '%s\n' 1-dies 2-lies 3-says >spoil
expect 0 jobs --hosts hosts --job-program "$T/unreliable"
[ ! -s spoil ] || fail "not everything has gone wrong: $(cat spoil)"
says 'job 2 of .* is run again: it left no result'
says 'job 3 of .* is run again: .*it is damaged'
as_expected

say "one that never works"
rm -r run/contents
printf '%s\n' 1-says 1-says >spoil
expect 1 jobs --hosts here --job-program "$T/unreliable" --tries 2
says 'job 2 of .* has failed 2 times'
says 'I do not feel like job 1'
[ ! -e run/jobs ] || fail "a failure leaves the folder of jobs"

say "no such host"
expect 1 jobs --hosts nowhere.invalid --tries 1
says 'has failed 1 times: it left no result \(exit status 255 on nowhere.invalid'
# … but another one that can do its work.
rm -rf run/contents
expect 0 jobs --hosts nowhere.invalid,here
says 'is run again: .* on nowhere.invalid'
as_expected

say "the controller is ended"
rm -rf run/contents
cat >slow <<SH
#!/bin/bash
echo \$\$ >>$T/slow.pids
exec sleep 1000
SH
chmod +x slow
"$BACKSTEP" trace --jobs ssh --hosts here --at-once 1 --job-seconds 0.05 --job-program "$T/slow" run 2>err &
controller=$!
comes test -s slow.pids || fail "no job starts"
pid=$(cat slow.pids)
kill -TERM $controller
got=0
wait $controller || got=$?
[ $got = 143 ] || fail "SIGTERM ends it with $got"
comes has_ended "$pid" || fail "a job runs on"
[ ! -e run/jobs ] || fail "the folder of jobs stays"
ok
