#!/usr/bin/env bash
# Signals that another process, recorded or not, sends to one thread reach that one and no other, as natively: handlers,
# sigwait, signalfd, calls that are interrupted, and signals that kill.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
D=$P/thr_directed
OUTPUT=same record_tree family "$D" family
RECORD_OPTIONS=--chaos=3 OUTPUT=same REPLAYS=1 record_tree chaos "$D" family
for where in computes reads sleeps locks; do
  REPLAYS=1 record_tree "$where" "$D" family $where
  [ "$ended" = 143 ] || fail "$where: ended with $ended"
done
# A signal may end the process while the recorder is at a call that has not begun to wait: one time in six here.
for n in 1 2 3 4 5 6 7 8; do REPLAYS=1 record_tree sleeps-$n "$D" family sleeps; done
mkfifo orders "done"
# sent_to COMMAND...: runs it with a sender beside it.
sent_to() {
  rm -f orders.pid
  (
    for ((i = 0; i < 1000; i++)); do [ ! -s orders.pid ] || break; sleep 0.05; done
    exec timeout -k 5 "$LIMIT" "$D" send "$(cat orders.pid)" "$T/orders" "$T/done"
  ) &
  "$@"
  wait
}
NATIVE=no sent_to record_replay outsider "$D" "$T/orders" "$T/done"
same family.out outsider.out "the signals of a process that is not recorded were not all seen"
NATIVE=no sent_to record_replay killed "$D" "$T/orders" "$T/done" reads
[ "$ended" = 143 ] || fail "a thread that reads: ended with $ended"
# Wherever the recorder is on its thread's way into a call.
source "$SRC/tests/inject/inject.bash"
inject_way read 0 173 worker
inject_way sigsuspend 130 173 worker
inject_way ppoll 271 173 worker
inject_way futex 202 173 worker
inject_way sigwait 128 173 worker
inject_way late_sigwait 14 97 worker
inject_way late_signalfd 14 97 worker
ok
