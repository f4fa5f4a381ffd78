#!/usr/bin/env bash
# etcd on three hosts (network namespaces at one switch), with a partition made by nftables: the leader is cut off, the other two elect
# another one and go on, the partition heals, and the old leader has everything. All of it is recorded.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/soak/cluster_real.bash"
PATH=$PATH:/usr/sbin
have etcd && have etcdctl && have nft && have ip || skip "no etcd or nftables here (apt-get install etcd-server etcd-client nftables)"
net=bs$$
no_hosts() {
  local ended=$?
  for n in 0 1 2 3; do
    # shellcheck disable=SC2046
    kill $(ip netns pids $net-$n 2>/dev/null) 2>/dev/null || true
    ip netns del $net-$n 2>/dev/null || true
  done
  [ -z "${recorded:-}" ] || wait "$recorded" 2>/dev/null || true
  return $ended
}
ip netns add $net-0 2>/dev/null || skip "no network namespaces here (that takes root)"
trap 'no_hosts; cleanup' EXIT
# Namespace 0 has the switch, and clients.
ip -n $net-0 link add switch type bridge 2>/dev/null || skip "no virtual network devices here"
ip -n $net-0 address add 10.77.1.10/24 dev switch
ip -n $net-0 link set switch up
for n in 1 2 3; do
  ip netns add $net-$n
  ip -n $net-0 link add port$n type veth peer name eth0 netns $net-$n
  ip -n $net-0 link set port$n master switch up
  ip -n $net-$n address add 10.77.1.$n/24 dev eth0
  ip -n $net-$n link set eth0 up
  ip -n $net-$n link set lo up
done
ip netns exec $net-1 nft list ruleset >/dev/null 2>&1 || skip "no nftables here"
peers=n1=http://10.77.1.1:2380,n2=http://10.77.1.2:2380,n3=http://10.77.1.3:2380
member() {
  host "n$1" "ip netns exec $net-$1" "exec etcd --name n$1 --data-dir $T/data$1 --initial-cluster $peers --initial-cluster-state new --heartbeat-interval 300 --election-timeout 3000 --initial-advertise-peer-urls http://10.77.1.$1:2380 --listen-peer-urls http://10.77.1.$1:2380 --listen-client-urls http://10.77.1.$1:2379 --advertise-client-urls http://10.77.1.$1:2379 --logger zap --log-outputs $T/n$1.log" daemon
}
# The client says in files what it has come to; the network is cut and mended behind its back.
cat >client.sh <<'SH'
export ETCDCTL_API=3
etc() { etcdctl --dial-timeout 60s --command-timeout 60s --endpoints "$@"; }
all=10.77.1.1:2379,10.77.1.2:2379,10.77.1.3:2379
until etc $all put before 1 >/dev/null 2>&1; do sleep 1; done
etc $all endpoint status -w fields | awk '/"MemberID"/ {m = $NF} /"Leader"/ {l = $NF} /"Endpoint"/ && l == m {print $NF}' | tr -d '"' | sed 's/.*10\.77\.1\.\([0-9]\).*/\1/' >leader.new
mv leader.new leader
until [ -e parted ]; do sleep 0.3; done
read -r leader <leader
rest=$(for n in 1 2 3; do [ $n = "$leader" ] || echo 10.77.1.$n:2379; done | paste -sd,)
until etc "$rest" put during 2 >/dev/null 2>&1; do sleep 1; done
touch written
until [ -e mended ]; do sleep 0.3; done
until [ "$(etc "10.77.1.$leader:2379" get during --print-value-only 2>/dev/null)" = 2 ]; do sleep 1; done
echo "the old leader has $(etc "10.77.1.$leader:2379" get before --print-value-only) and $(etc "10.77.1.$leader:2379" get during --print-value-only)"
SH
{
  member 1; member 2; member 3
  host client "ip netns exec $net-0" "exec bash client.sh"
} | LIMIT=500 record_hosts etcd &
recorded=$!
has() { [ -e "$1" ] || has_ended $recorded; }
comes has leader
leader=$(cat leader)
case $leader in [123]) ;; *) fail "no leader: $leader" ;; esac
ip netns exec $net-$leader nft -f - <<N
table inet cut {
  chain in { type filter hook input priority 0; policy accept; iifname eth0 drop; }
  chain out { type filter hook output priority 0; policy accept; oifname eth0 drop; }
}
N
touch parted
comes has written
ip netns exec $net-$leader nft delete table inet cut
touch mended
wait $recorded || fail "not recorded"
grep -qx 'the old leader has 1 and 2' etcd.out || { cat etcd.out etcd.err >&2; fail "the old leader"; }
holds etcd
# The other two talked to each other, and elected one, while nothing came from the old leader.
[ "$(sql etcd "SELECT count(*) > 0 FROM messages WHERE sender LIKE 'n%/etcd' AND receiver LIKE 'n%/etcd' AND sender <> receiver")" = 1 ] || fail "members that say nothing to each other"
ok
