#!/usr/bin/env bash
# A data event on what a pointer leads to means what it leads to at the end, if the pointer is null at the start.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/list.bash"

# The last node has the address of the one before it in its second member.
# shellcheck disable=SC2016  # $old and $new are for the program
"$BACKSTEP" log 'change list->next' '{$old} -> {$new}' ./recording >changes 2>notes || fail "log"
grep -q 'at the end of the recording' notes || fail "no note: $(cat notes)"
grep -qE '0x0 -> 0x[0-9a-f]+$' changes || fail "the changes: $(cat changes)"
# What is null at the end, too, is a mistake.
status=0
"$BACKSTEP" count 'write list->next->next->next->value' ./recording 2>error || status=$?
[ "$status" -eq 2 ] || fail "a place that is never there: exit status $status"
grep -q 'neither at the start nor at the end' error || fail "the message: $(cat error)"
ok
