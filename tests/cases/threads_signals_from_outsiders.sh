#!/usr/bin/env bash
# Signals that an unrecorded process sends to the first thread alone reach it as they do natively, wherever it waits.
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
mkfifo orders "done"
# sent_to COMMAND...: runs it with a sender beside it.
sent_to() {
  rm -f orders.pid
  (
    for ((i = 0; i < 1000; i++)); do [ ! -s orders.pid ] || break; sleep 0.05; done
    exec timeout -k 5 "$LIMIT" "$P/thr_outside" send "$(cat orders.pid)" "$T/orders" "$T/done"
  ) &
  "$@"
  wait
}
sent_to "$P/thr_outside" "$T/orders" "$T/done" >native
for round in 1 2; do
  NATIVE=no sent_to record_replay "round$round" "$P/thr_outside" "$T/orders" "$T/done"
  same native "round$round.out" "the signals were not all seen"
done
NATIVE=no RECORD_OPTIONS=--chaos=7 sent_to record_replay chaos "$P/thr_outside" "$T/orders" "$T/done"
same native chaos.out "the signals were not all seen in chaos mode"
ok
