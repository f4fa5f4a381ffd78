#!/usr/bin/env bash
# Who mistypes a command, an option or a recording's name is told what there is; a program instead of a command, how to
# record it; and a word too much, that it is one.
. "$(dirname "$0")/lib.bash"

# hints STATUS TEXT ARG...: that is the exit status of `backstep ARG...`, and TEXT is in what it says.
hints() {
  local status=0 wanted=$1 text=$2
  shift 2
  "$BACKSTEP" "$@" >out 2>&1 || status=$?
  [ $status = "$wanted" ] || fail "'$*' exits with $status, not $wanted: $(cat out)"
  grep -qF -- "$text" out || fail "'$*' does not say '$text': $(cat out)"
}

cp /bin/true ten
for _ in 1 2 3; do "$BACKSTEP" record -q ./ten; done
hints 2 "did you mean 'record'?" recrod ./ten
hints 2 "to record that program: backstep record ./ten" ./ten
hints 2 "to record that program: backstep record uname" uname -a
hints 2 "'backstep --help' lists them" zzz
hints 2 "there is no option '--jsn'; did you mean '--json'?" info --jsn
hints 2 "there is no option '--limt'; did you mean '--limit'?" dump --limt=3
hints 2 "did you mean 'open', 'openat' or 'openat2'?" dump -k opena ten-1
hints 2 "there is no event 100000: the last one is" dump --from 100000 ten-1
hints 1 "did you mean 'ten-3'?" info ten
hints 1 "did you mean 'ten-1'" info tne-1
hints 1 "see 'backstep ls'" info quite-different
hints 2 "did you mean 'ten-3'?" log main x ten
hints 2 "did you mean 'ten-3'?" calls main ten
hints 2 "what is 'main' for?" calls call main ten-1
ok
