#!/usr/bin/env bash
# ls, info, dump, pack and rm on real recordings: what they print agrees with what happened.
set -euo pipefail
# Reads all of it: grep -q stops at the first match, which kills who writes.
seen() { grep "$@" >/dev/null; }
fail() { echo "FAILED: $*"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export BACKSTEP_DIR=$work/lib

# An empty library.
[[ $("$BACKSTEP" ls) == "no recordings in $BACKSTEP_DIR" ]] || fail "ls of an empty library"
[ "$("$BACKSTEP" ls --json)" = "[]" ] || fail "ls --json of an empty library"
"$BACKSTEP" info 2>err && fail "info without a recording"
grep -q 'backstep record' err || fail "no advice: $(cat err)"

# A run that ends well, one that fails, one that crashes, one elsewhere.
cp "$SRC/examples/demo/orders.txt" .
gcc -g -O1 -o inventory "$SRC/examples/demo/inventory.c"
"$BACKSTEP" record -q /bin/echo hello >/dev/null
"$BACKSTEP" record -q /bin/cat missing 2>/dev/null && fail "exit status of cat"
"$BACKSTEP" record -q -o "$work/elsewhere" /bin/echo there >/dev/null
(ulimit -c 0; sh -c '"$BACKSTEP" record -q ./inventory orders.txt; exit $?' >/dev/null 2>&1) && fail "exit status of a crash"

# ls
names=$("$BACKSTEP" ls --json | jq -r '.[].name' | tr '\n' ' ')
[ "$names" = "echo-1 cat-1 $work/elsewhere inventory-1 " ] || fail "ls: $names"
"$BACKSTEP" ls | seen -E '^cat-1 .* 1 +/bin/cat missing$' || fail "ls shows no exit status: $("$BACKSTEP" ls)"
"$BACKSTEP" ls | seen -E '^inventory-1 .* SIGSEGV' || fail "ls shows no signal"

# info: latest, by name, by path
"$BACKSTEP" info | seen -E '^  in +report\+0x[0-9a-f]+ \(inventory.c:[0-9]+\)$' || fail "info has no place of the crash"
"$BACKSTEP" info echo-1 | seen 'exited with status 0' || fail "info by name"
"$BACKSTEP" info elsewhere | seen "$work/elsewhere" || fail "info by path"
info=$("$BACKSTEP" info --json)
[ "$(jq -r .end.crash.function <<<"$info")" = report ] || fail "info --json: function"
[ "$(jq .end.ticks <<<"$info")" -gt 1000 ] || fail "info --json: ticks"
[ "$(jq '[.log.kinds[].count] | add' <<<"$info")" = "$(jq .log.events <<<"$info")" ] || fail "kinds do not add up"
[ "$(jq '[.log.syscalls[].count] | add' <<<"$info")" = "$(jq .log.kinds.syscall.count <<<"$info")" ] || fail "calls do not add up"

# dump: as many lines as events; selections; JSON
[ "$("$BACKSTEP" dump | wc -l)" = "$(jq .log.events <<<"$info")" ] || fail "dump does not print every event"
"$BACKSTEP" dump cat-1 | seen -E 'openat\(AT_FDCWD, "missing", O_RDONLY\) = -1 ENOENT' || fail "dump of openat"
[ "$("$BACKSTEP" dump -n 3 --from 5 | awk '{print $1}' | tr '\n' ' ')" = "5 6 7 " ] || fail "dump --limit --from"
"$BACKSTEP" dump -k openat cat-1 | grep -v ' openat(' && fail "dump --kind"
"$BACKSTEP" dump --failed cat-1 | grep -vE '\) = -1 E[A-Z0-9]+ ' && fail "dump --failed has what did not fail"
[ "$("$BACKSTEP" dump --failed --grep missing cat-1 | grep -c 'openat(.*"missing"')" = 1 ] || fail "dump --failed --grep"
point=$(jq -r .end.crash.text <<<"$info")
[ "$("$BACKSTEP" dump --pc -k end | awk '{print $2}')" = "$point" ] || fail "dump and info differ about the crash"
[ "$("$BACKSTEP" dump --json | jq -s 'map(.event) == [range(length)]')" = true ] || fail "dump --json: numbers"

# pack: needs no store afterwards
"$BACKSTEP" pack echo-1 | seen self-contained || fail "pack"
cp -r "$BACKSTEP_DIR/echo-1" moved
[ "$(BACKSTEP_DIR=$work/other "$BACKSTEP" replay --autopilot ./moved 2>&1)" = hello ] || fail "a packed recording needs the store"

# rm
"$BACKSTEP" rm inventory-1
[[ $("$BACKSTEP" info) == *"$work/elsewhere"* ]] || fail "latest after rm"
"$BACKSTEP" rm inventory-1 2>/dev/null && fail "rm of what is not there"
"$BACKSTEP" rm -f inventory-1 || fail "rm -f of what is not there"
mkdir precious
"$BACKSTEP" rm -f ./precious
[ -d precious ] || fail "rm removed a folder that is no recording"
"$BACKSTEP" rm --all </dev/null 2>/dev/null && fail "rm --all without asking"
"$BACKSTEP" rm -f --all
[ "$("$BACKSTEP" ls --json)" = "[]" ] || fail "rm --all left something"
[ ! -e elsewhere ] || fail "rm --all left the one elsewhere"
echo passed
