#!/usr/bin/env bash
# A setuid program is recorded without the privilege, with a warning.
source "$(dirname "$0")/lib.bash"
[ "$(id -u)" = 0 ] || skip "needs root to make a setuid program"
need setpriv
cp "$(command -v id)" id
chown 0:0 id
chmod 4755 id
chmod a+rx "$T"
mkdir home
chown 65534 home
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
as_nobody true || skip "setpriv does not work here"
cp "$BACKSTEP" backstep
chmod a+rx backstep
[ "$(as_nobody ./id -u)" = 0 ] || skip "this file system does not honour setuid"
got=0
HOME=$T/home BACKSTEP_DIR=$T/home/lib as_nobody ./backstep record ./id -u >out 2>err || got=$?
[ $got = 0 ] || { cat err; fail "ended with $got"; }
[ "$(cat out)" = 65534 ] || fail "it ran with the privilege"
says 'setuid|privilege'
ok
