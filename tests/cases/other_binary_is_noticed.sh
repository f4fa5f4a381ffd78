#!/usr/bin/env bash
# The program's file changes or vanishes after the recording: replay uses the stored contents. The stored
# contents change or vanish: replay says so.
source "$(dirname "$0")/lib.bash"
cp "$P/hello" program
cp "$P/libthrower.so" "$P/exceptions" . 2>/dev/null || true
record_replay rec "$T/program"
printf 'changed' | dd of=program bs=1 seek=5000 conv=notrunc status=none
replay_again rec 1
rm program
replay_again rec 1
# Whatever of the store the recording needs: change each file in turn.
[ -s rec/store-keys ] || fail "the recording has no list of store keys"
while read -r key _; do
  file=$BACKSTEP_DIR/store/${key:0:2}/$key
  [ -f "$file" ] || fail "there is no $file in the store"
  cp "$file" kept
  chmod u+w "$file"
  size=$(stat -c %s "$file")
  printf '\xcc\xcc\xcc\xcc' | dd of="$file" bs=1 seek=$((size / 2)) conv=notrunc status=none
  got=0
  "$BACKSTEP" replay --autopilot --check=deep rec >out 2>err </dev/null || got=$?
  [ $got = 3 ] || { cat err; fail "changed contents $key: replay --check=deep ended with $got"; }
  rm "$file"
  got=0
  "$BACKSTEP" replay --autopilot rec >out 2>err </dev/null || got=$?
  [ $got != 0 ] || fail "missing contents $key: replay ended with 0"
  [ -s err ] || fail "missing contents $key: no sentence"
  cp kept "$file"
done <rec/store-keys
replay_again rec 1
ok
