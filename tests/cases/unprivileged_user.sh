#!/usr/bin/env bash
# Everything as an ordinary user without groups or capabilities; and what root recorded, that user replays.
source "$(dirname "$0")/lib.bash"
[ "$(id -u)" = 0 ] || skip "needs root to become somebody else (as an ordinary user all other cases show it)"
need setpriv
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --no-new-privs "$@"; }
cp -r "$P" programs
cp "$BACKSTEP" backstep
chmod -R a+rX "$T"
mkdir home
chown 65534:65534 home
export HOME=$T/home
as_nobody true || skip "setpriv does not work here"
cd home || exit
for name in hello exceptions sig_barrier smc_rwx sys_info; do
  got=0
  BACKSTEP_DIR=$T/home/lib as_nobody "$T/backstep" record -q -o "$T/home/$name.rec" -- "$T/programs/$name" >"$T/out" 2>"$T/err" || got=$?
  [ $got = 0 ] || { cat "$T/err"; fail "$name ended with $got"; }
  BACKSTEP_DIR=$T/home/lib as_nobody "$T/backstep" replay --autopilot "$T/home/$name.rec" >"$T/out2" 2>"$T/err2" ||
    { cat "$T/err2"; fail "replay of $name as nobody"; }
  same "$T/out" "$T/out2" "other output"
done
cd "$T" || exit
record_replay root "$P/hello"
chmod -R a+rX "$T/root" "$BACKSTEP_DIR"
as_nobody "$T/backstep" replay --autopilot "$T/root" >out2 2>err2 || { cat err2; fail "nobody cannot replay what root recorded"; }
same root.out out2 "other output"
ok
