#!/usr/bin/env bash
# redis with a replica in two network namespaces: what the primary got comes to the replica; then the primary is shut down, the replica is
# made the primary, and goes on. All of it is recorded, is one run, and the way of a value from client to replica can be asked.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/cases/cluster.bash"
source "$SRC/tests/soak/cluster_real.bash"
have redis-server && have redis-cli || skip "no redis here (apt-get install redis-server redis-tools)"
two_hosts
cat >client.sh <<'SH'
primary() { redis-cli -h 10.77.0.1 "$@"; }
replica() { redis-cli -h 10.77.0.2 "$@"; }
until replica info replication 2>/dev/null | grep -q master_link_status:up; do sleep 0.2; done
for i in 1 2 3 4 5; do primary set key$i value$i >/dev/null; done
primary wait 1 0
primary shutdown nosave
replica replicaof no one
replica set key6 after
replica mget key1 key5 key6
SH
{
  host A "ip netns exec $A" "exec redis-server --bind 10.77.0.1 --protected-mode no --save '' --appendonly no --logfile $T/A.log --dir $T" daemon
  host B "ip netns exec $B" "exec redis-server --bind 10.77.0.2 --protected-mode no --save '' --appendonly no --logfile $T/B.log --dir $T --replicaof 10.77.0.1 6379" daemon
  host client "ip netns exec $A" "exec bash $T/client.sh"
} | record_hosts redis
[ "$(grep -A 2 '^value1$' redis.out | tr '\n' ' ')" = "value1 value5 after " ] || { cat redis.out redis.err >&2; fail "the replica has not got everything"; }
holds redis
# Both ends of all connections were recorded, so all bytes have a sender and a receiver, but those of redis-cli's that was told nothing more.
[ "$(sql redis "SELECT count(*) FROM messages WHERE NOT checked")" = 0 ] || fail "bytes that were matched by order alone"
[ "$(sql redis "SELECT count(*) > 0 FROM messages WHERE sender = 'A/redis-server' AND receiver = 'B/redis-server'")" = 1 ] || fail "nothing was replicated"
# A value's way: from redis-cli to the primary, and from there to the replica, before the next redis-cli had its answer to WAIT.
[ "$(sql redis "SELECT count(*) > 0 FROM messages s JOIN messages r ON r.sender = 'A/redis-server' AND r.receiver = 'B/redis-server' AND r.sent_event > s.received_event
  WHERE s.sender LIKE 'client/%redis-cli%' AND s.receiver = 'A/redis-server' AND happened_before(s.sender, s.sent_event, r.receiver, r.received_event)")" = 1 ] ||
  fail "no way from the client to the replica"
ok
