#!/usr/bin/env bash
# A breakpoint in one process of a run stops the others at a consistent cut: with --causal where all has happened that happened before, and no
# more; with --optimistic where they need what has not happened. gdb sees each process there.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cases/cluster_chain.bash
source "$(dirname "$0")/cluster_chain.bash"

# The third answer is the first wrong one. Nobody has gone on past what led to it.
expect 0 cluster break run A/chain "$WRONG" if asked == 2 --name wrong
seen 'A/chain .*stopped .*check at chain.c' <"$T/out" || fail "the client is not at the line: $(cat "$T/out")"
consistent wrong || fail "the causal cut is not consistent"
[ "$(place wrong A/chain.2 state)" = running ] || fail "the worker is not stopped in the middle of its run"
for asked in A/chain:3 A/chain.1:3 A/chain.2:3; do
  process=${asked%:*}
  [ "$(sql "SELECT count(*) FROM messages m JOIN cuts c ON c.process = m.sender WHERE c.name = 'wrong' AND m.sender = '$process'
            AND m.sent_event < c.event")" = "${asked#*:}" ] || fail "$process has not sent ${asked#*:} messages in the causal cut"
done
# Who sent the wrong answer has sent nothing since, and read nothing.
[ "$(sql "SELECT count(*) FROM messages m JOIN cuts c ON c.process = m.receiver WHERE c.name = 'wrong' AND m.receiver = 'A/chain.2'
          AND m.received_event < c.event")" = 3 ] || fail "the worker has read on"
cluster gdb run A/chain.2 wrong -- -batch -ex 'print answered' >gdb.out 2>&1
seen -F '$1 = 3' <gdb.out || fail "gdb is not at the worker's place: $(tail -n 5 gdb.out)"

# Several are inferiors of one gdb; one moves, and the others follow.
cluster gdb run A/chain A/chain.2 wrong -- -batch -ex 'inferior 2' -ex 'print answered' -ex 'inferior 1' -ex 'reverse-continue' \
  -ex 'goto @0' -ex 'break check' -ex 'continue' -ex 'continue' -ex 'follow' -ex 'inferior 2' -ex 'print answered + 100' -ex 'inferior 1' \
  -ex 'print asked' >gdb.out 2>&1
{ seen -F '$1 = 3' <gdb.out && seen -F '$2 = 102' <gdb.out && seen -F '$3 = 1' <gdb.out; } || fail "the worker does not follow: $(cat gdb.out)"
seen 'A/chain.2 running: .*needed 4 bytes on pipe of A/chain' <gdb.out || fail "it is not said where the worker is: $(cat gdb.out)"
# … by themselves, at each prompt.
cluster gdb run A/chain A/chain.2 wrong >gdb.out 2>&1 <<'GDB'
goto start
break check
follow always
continue
continue
continue
inferior 2
print answered + 100
follow never
follow sideways
GDB
seen -F '$1 = 103' <gdb.out || fail "the worker does not follow by itself: $(cat gdb.out)"
seen -F 'follow [always] [causal|optimistic]' <gdb.out || fail "what is wrong is not said: $(cat gdb.out)"

# Optimistic: the others have nothing to do until the client asks again.
expect 0 cluster break run A/chain "$WRONG" if asked == 2 --optimistic --name far
consistent far || fail "the optimistic cut is not consistent"
for process in A/chain.1 A/chain.2; do
  [ "$(place far $process state)" = waits ] || fail "$process does not wait: $(cat "$T/out")"
done
expect 0 cluster blocked run far
seen 'A/chain.1 .*read .*4 bytes .*A/chain' <"$T/out" || fail "the server does not wait for the client: $(cat "$T/out")"
seen deadlock <"$T/out" && fail "there is no deadlock there"

# Two at once; and two that cannot be.
expect 0 cluster break run A/chain.1 server A/chain.2 worker --name both
consistent both || fail "the cut with two breakpoints is not consistent"
[ "$(place both A/chain.1 state)$(place both A/chain.2 state)" = stoppedstopped ] || fail "not both are stopped"
expect 2 cluster break run A/chain.1 server A/chain "$WRONG"
says 'cannot be held together: A/chain.1 stops at .*needed 4 bytes'
expect 0 cluster break run A/chain.1 server A/chain "$WRONG" --optimistic --name stuck
[ "$(place stuck A/chain state)" = waits ] || fail "the client waits for the stopped server"
[[ $(place stuck A/chain why) == *"does not come to $WRONG"* ]] || fail "why: $(place stuck A/chain why)"

# In front of the first fork there is nobody else; a child begins where it was made.
expect 0 cluster break run A/chain main --name early
[ "$(place early A/chain.1 state)" = unborn ] || fail "a child that was not made yet: $(cat "$T/out")"
expect 2 cluster gdb run A/chain.1 early
says 'has not been created yet'
expect 0 cluster break run A/chain.1 'call get' --name child
[ "$(place child A/chain.2 state)" = unborn ] || fail "nothing needed the second child"
expect 1 cluster break run A/chain.1 main
says "never happens in A/chain.1"

# What is wrong is said.
expect 2 cluster break run A/chian main
says "no process 'A/chian'; did you mean 'A/chain'"
expect 2 cluster break run A/chain
expect 2 cluster break run A/chain main --causal --optimistic
expect 1 cluster break run A/chain "$WRONG" --count 9
says 'happens 4 times'
ok
