#!/usr/bin/env bash
# A call that the recorder put off, because a signal had come, is made again from its instruction on: gdb stops at the
# call that was made, once each way; dump says which is which, and info counts what was made.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/inject/inject.bash"
source "$SRC/tests/cases/gdb.bash"
need jq
inject_way poll 7 97
mv "$T/injected/recording" "$T/rec-put-off"
calls() { "$BACKSTEP" dump -p '#1' -k poll --json "$T/rec-put-off" | jq -c "select($1)" | wc -l; }
put_off=$(calls '.result == -513') made=$(calls '.result != -513')
[ "$put_off" -gt 0 ] && [ "$made" -gt 0 ] || fail "no call was put off, or none was made"
[ "$(calls '.made')" = "$made" ] || fail "dump does not tell which calls were made"
[ "$("$BACKSTEP" dump -p '#1' -k poll "$T/rec-put-off" | grep -c 'not made yet')" = "$put_off" ] ||
  fail "dump does not say what was not made"
"$BACKSTEP" info --json "$T/rec-put-off" >info
[ "$(jq -c '.. | objects | select(has("syscalls")) | .syscalls.poll | [.count, .errors]' info)" = "[$made,0]" ] ||
  fail "info counts calls that were not made"
say "$put_off calls were put off, $made were made"
# Each call that was made stops in front and behind, and then there is none, both ways.
forwards=('continue') backwards=('reverse-continue')
for ((i = 0; i < 2 * made; i++)); do
  forwards+=('continue')
  backwards+=('reverse-continue')
done
catch=('handle SIGUSR1 SIGUSR2 nostop noprint pass' 'catch syscall poll')
AT='--at start' in_gdb put-off "${catch[@]}" "${forwards[@]}"
times "$made" 'call to syscall poll'
times "$made" 'returned from syscall poll'
AT='--at end' in_gdb put-off "${catch[@]}" "${backwards[@]}"
times "$made" 'call to syscall poll'
times "$made" 'returned from syscall poll'
# By name, from one to the next.
goto=()
for ((i = 0; i <= made; i++)); do goto+=('monitor goto next call poll'); done
AT='--at start' in_gdb put-off "${goto[@]}"
times 1 'there is no call behind here'
ok
