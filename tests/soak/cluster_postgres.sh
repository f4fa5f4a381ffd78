#!/usr/bin/env bash
# PostgreSQL with a standby that replicates by streaming, in two network namespaces: what is committed at the primary can be read at the
# standby; the primary is stopped, the standby is promoted and takes writes.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/cases/cluster.bash"
source "$SRC/tests/soak/cluster_real.bash"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -x "$bin/initdb" ] || skip "no PostgreSQL here (apt-get install postgresql)"
have setpriv && id postgres >/dev/null 2>&1 || skip "PostgreSQL does not run as root"
two_hosts
# The servers refuse to run as root: all hosts are recorded as their own user, from a folder of that user's.
chmod 755 "$T"
mkdir -m 777 user
cp "$BACKSTEP" user/backstep
cp -r "$(dirname "$BACKSTEP")/lib" user/ 2>/dev/null || true
export BACKSTEP_DIR=$T/user/recordings  # gather packs what is there
as="setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=$T/user XDG_CACHE_HOME=$T/user/cache"
cd user || exit 1
settings="-c fsync=off -c shared_buffers=16MB -c max_connections=20 -c autovacuum=off -c unix_socket_directories="
cat >primary.sh <<SH
$bin/initdb -D primary -N -A trust -U me >init.log 2>&1
echo "host all,replication all 10.77.0.0/24 trust" >>primary/pg_hba.conf
exec $bin/postgres -D primary $settings -c listen_addresses=10.77.0.1 -c wal_level=replica -c logging_collector=off 2>primary.log
SH
cat >standby.sh <<SH
until $bin/pg_isready -q -h 10.77.0.1; do sleep 0.3; done
$bin/pg_basebackup -h 10.77.0.1 -U me -D standby -R -X stream -c fast 2>basebackup.log
exec $bin/postgres -D standby $settings -c listen_addresses=10.77.0.2 -c hot_standby=on 2>standby.log
SH
cat >client.sh <<SH
ask() { $bin/psql -X -q -At -U me -d postgres -h "\$@"; }
until ask 10.77.0.2 -c "select 1 from pg_stat_wal_receiver" 2>/dev/null | grep -q 1; do sleep 0.3; done
ask 10.77.0.1 -c "create table t as select n, md5(n::text) from generate_series(1, 2000) n"
end=\$(ask 10.77.0.1 -c "select pg_current_wal_lsn()")
until [ "\$(ask 10.77.0.2 -c "select pg_last_wal_replay_lsn() >= '\$end'")" = t ]; do sleep 0.2; done
echo "standby has \$(ask 10.77.0.2 -c 'select count(*) from t')"
$bin/pg_ctl -D primary -m fast -t 200 stop >/dev/null
$bin/pg_ctl -D standby -t 200 promote >/dev/null
ask 10.77.0.2 -c "insert into t values (0, 'after')"
echo "promoted has \$(ask 10.77.0.2 -c 'select count(*) from t')"
$bin/pg_ctl -D standby -m fast -t 200 stop >/dev/null
SH
real_backstep=$BACKSTEP
BACKSTEP=$T/user/backstep
{
  host A "ip netns exec $A $as" "bash primary.sh"
  host B "ip netns exec $B $as" "bash standby.sh"
  host client "ip netns exec $A $as" "bash client.sh"
} | sed "s|folder = \"$T/|folder = \"$T/user/|" | LIMIT=400 record_hosts pg
BACKSTEP=$real_backstep
grep -qx 'standby has 2000' pg.out && grep -qx 'promoted has 2001' pg.out || { cat pg.out pg.err ./*.log >&2; fail "the answers"; }
holds pg
# The log of the primary's transactions goes from one process there to one process of the standby.
[ "$(sql pg "SELECT sum(bytes) > 100000 FROM messages WHERE sender LIKE 'A/%postgres%' AND receiver LIKE 'B/%postgres%'")" = 1 ] || fail "nothing was replicated"
# Whatever the standby told the client about the table was behind what the client had told the primary.
[ "$(sql pg "SELECT count(*) FROM (SELECT sender, sent_event FROM messages WHERE sender LIKE 'client/%' AND receiver LIKE 'A/%' ORDER BY sent_time LIMIT 1) q,
  (SELECT receiver, received_event FROM messages WHERE sender LIKE 'B/%' AND receiver LIKE 'client/%' ORDER BY received_time DESC LIMIT 1) a
  WHERE NOT happened_before(q.sender, q.sent_event, a.receiver, a.received_event)")" = 0 ] || fail "the order of question and answer"
ok
