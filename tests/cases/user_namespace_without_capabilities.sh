#!/usr/bin/env bash
# In a user namespace of its own with every capability dropped, no network: recording and replaying work.
source "$(dirname "$0")/lib.bash"
need unshare setpriv
unshare -U true 2>/dev/null || skip "user namespaces are not permitted here"
inside() { unshare -U -n --map-current-user setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@" 2>&3; }
inside true 3>/dev/null || inside() { unshare -U --map-current-user "$@" 2>&3; }
inside true 3>/dev/null || skip "unshare does not work here"
for name in hello sig_edit isa_overlap sys_memory; do
  inside "$BACKSTEP" record -q -o "$T/$name" -- "$P/$name" >out 3>err || { cat err; fail "$name in a namespace"; }
  inside "$BACKSTEP" replay --autopilot "$T/$name" >out2 3>err || { cat err; fail "replay of $name in a namespace"; }
  same out out2 "$name: other output"
  "$BACKSTEP" replay --autopilot "$T/$name" >out2 2>err || { cat err; fail "replay of $name outside"; }
done
ok
