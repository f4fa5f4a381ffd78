# Hosts for cases about distributed programs: network namespaces of this machine, connected with each other. Sourced behind lib.bash.
need ip

# two_hosts: A (10.77.0.1) and B (10.77.0.2). Skips the case where namespaces cannot be had.
two_hosts() {
  A=bs$$a B=bs$$b
  ip netns add "$A" 2>/dev/null || skip "no network namespaces here (that takes root)"
  trap 'no_hosts; cleanup' EXIT
  ip netns add "$B" || fail "a second network namespace"
  ip link add "v$A" type veth peer name "v$B" 2>/dev/null || skip "no virtual network devices here"
  local host number=0
  for host in "$A" "$B"; do
    number=$((number + 1))
    ip link set "v$host" netns "$host"
    ip -n "$host" address add 10.77.0.$number/24 dev "v$host"
    ip -n "$host" link set "v$host" up
    ip -n "$host" link set lo up
  done
}
no_hosts() {
  local ended=$?
  ip netns del "${A:-}" 2>/dev/null || true
  ip netns del "${B:-}" 2>/dev/null || true
  return $ended
}
# on HOST COMMAND...
on() {
  local host=$1
  shift
  ip netns exec "$host" "$@"
}
# listens HOST PORT: does somebody there, on TCP?
listens() {
  on "$1" cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | seen -E "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$2") [0-9A-F]+:0000 0A"
}
