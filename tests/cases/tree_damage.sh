#!/usr/bin/env bash
# Damage in any file of a tree is reported: in a log by the replay of that process, and of those whose history it is.
source "$(dirname "$0")/lib.bash"
record_tree good bash -c 'echo a | tr a b; (echo sub; exit 3); x=$(/bin/echo c); echo "$x"; exit 4'
# notices PROCESS WHAT: its replay ends with status 3 and a sentence.
notices() {
  local got=0
  timeout "$PATIENCE" "$BACKSTEP" replay --autopilot -p "#$1" bad </dev/null >out 2>err || got=$?
  [ $got = 3 ] || { tail -n 3 err >&2; fail "$2: the replay of process $1 ended with $got instead of 3"; }
  grep -Eqi 'damage|diverge|cut off|checksum|differ|missing|version|not a backstep|ends|ended|empty' err ||
    { cat err >&2; fail "$2: no sentence about it"; }
}
"$BACKSTEP" ps --json good | "$PYTHON" -c 'import json, sys; print(*[p["number"] for p in json.load(sys.stdin)])' >numbers
read -ra numbers <numbers
[ ${#numbers[@]} -ge 4 ] || fail "a small tree: ${numbers[*]}"

for number in "${numbers[@]}"; do
  for place in $("$PYTHON" -c "print(*range($number % 7, 64, 7))") $(damage places "good/process-$number.log" 8); do
    copy_recording good bad
    damage flip "bad/process-$number.log" "$place"
    notices "$number" "byte $place of log $number flipped"
    if [ "$place" -lt 64 ]; then
      expect 0 "$BACKSTEP" ps bad
      grep -q damaged out || { cat out >&2; fail "ps does not tell of the damage at byte $place of log $number"; }
    fi
  done
done

# A parent's log is its children's history, up to the fork.
child=$("$BACKSTEP" ps --json good | "$PYTHON" -c '
import json, sys
print(*[p["number"] for p in json.load(sys.stdin) if p["born"] == "fork" and p["parent"] == 1 and p["end"]["kind"] == "exit"][:1])')
for place in $(damage places good/process-1.log 12); do
  [ "$place" -lt 20000 ] || continue
  copy_recording good bad
  damage flip bad/process-1.log "$place"
  notices "$child" "byte $place of its parent's log flipped"
done
copy_recording good bad
rm bad/process-1.log
[ "$(status "$BACKSTEP" replay --autopilot -p "#$child" bad 2>err)" != 0 ] || fail "replays without its parent's log"
[ -s err ] || fail "no word about the missing log"

# Logs that lie in each other's place.
copy_recording good bad
cp bad/process-2.log bad/process-3.log
expect 0 "$BACKSTEP" ps bad
grep -q damaged out || { cat out >&2; fail "a log in another's place is not noticed"; }
case " ${numbers[*]} " in *" 3 "*) notices 3 "a log in another's place" ;; esac

# The tails of chunks that others follow are no exception.
RECORD_OPTIONS=--no-pack record_tree long "$PYTHON" -S -c '
import os
for i in range(4):
    with open("/dev/zero", "rb", 0) as f: f.read(700000)'
damage tails long/process-1.log >tails
[ -s tails ] || fail "the long log has one chunk only"
read -r number where <tails
cp -r long bad2
damage flip bad2/process-1.log "$where"
expect 3 "$BACKSTEP" replay --autopilot bad2
says "behind the last event of chunk $number"

# The files beside the logs: a replay that can do without them says so, and info does.
cd good || exit
side=(*.json tree store-keys)
cd ..
for file in "${side[@]}"; do
  size=$(stat -c %s "good/$file")
  for place in 0 4 5 $((size - 1)) $("$PYTHON" -c "
import random
random.seed('$file')
print(*random.sample(range($size), 8))"); do
    copy_recording good bad
    damage flip "bad/$file" "$place"
    expect 0 "$BACKSTEP" info bad
    grep -q "$file.*damaged\|$file.*version" out || { cat out; fail "byte $place of $file flipped: info does not say so"; }
    got=0
    "$BACKSTEP" replay --autopilot -p "#$child" bad >out 2>err || got=$?
    says "$file.*(damaged|version)"
    case $file in manifest.json) [ $got != 0 ] ;; *) [ $got = 0 ] ;; esac || fail "byte $place of $file flipped: replay ended with $got"
    expect 0 "$BACKSTEP" ps bad
  done
done
# Other people's files are none of ours.
copy_recording good bad
echo '{}' >bad/bookmarks.json
expect 0 "$BACKSTEP" info bad
! grep -q damaged out || { cat out; fail "a file that is not the recorder's is called damaged"; }
copy_recording good bad
for file in bad/process-*.json bad/tree bad/store-keys; do echo '{ garbage' >"$file"; done
expect 0 "$BACKSTEP" ps bad
expect 0 "$BACKSTEP" replay --autopilot -p "#$child" bad
for number in "${numbers[@]}"; do expect 0 "$BACKSTEP" info -p "#$number" bad; done
expect 3 "$BACKSTEP" pack bad
# What a damaged list does not name is kept all the same.
expect 0 "$BACKSTEP" record -q -o other /bin/true
expect 0 "$BACKSTEP" rm other
expect 0 "$BACKSTEP" replay --autopilot good
ok
