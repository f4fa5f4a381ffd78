#!/usr/bin/env bash
# Memory that processes write which are not recorded: what the recorded one read is what its replay reads, and locks
# between both work. Outsiders that are there before, come later, inherit a descriptor, or use write().
source "$(dirname "$0")/lib.bash"
export LIMIT=$PATIENCE
O=$P/tree_outsider
for round in 1 2 3; do
  NATIVE=no RECORD_OPTIONS=--no-follow record_tree "named$round" "$O" shared.file
  grep -qx ok "named$round.out" || fail "the recorded one did not come to its end: $(cat "named$round.out")"
  "$BACKSTEP" info "named$round" | seen 'shared with processes that are not recorded' ||
    fail "info does not tell of outsiders"
done
NATIVE=no RECORD_OPTIONS='--no-follow --chaos=3' record_tree chaos "$O" shared.file
NATIVE=no RECORD_OPTIONS=--no-follow record_tree inherited "$O"
# Both recorded; the child ends with write() to what it has unmapped.
NATIVE=no record_tree followed "$O" shared.file
[ "$logs" = 3 ] || fail "the child was not recorded: $logs logs"

for round in 1 2; do
  NATIVE=no RECORD_OPTIONS=--no-follow record_tree "operands$round" "$P/tree_operands" shared.file
  grep -q "^calls 20," "operands$round.out" || fail "the recorded one did not come to its end: $(cat "operands$round.out")"
done
NATIVE=no record_tree operands_followed "$P/tree_operands" shared.file

# It was there before.
"$O" writer "$T/before" &
comes [ -s before ]
NATIVE=no record_tree early "$O" reader "$T/before"
wait
# It comes when the recorded one has had the memory alone for a while.
(
  sleep 0.5
  exec "$O" writer "$T/later"
) &
NATIVE=no record_tree late "$O" reader "$T/later"
wait
# By system calls; the recorded one can only read.
printf 'thestart' >words
truncate -s 16384 words
(
  for ((i = 0; i < 20; i++)); do
    printf 'word%04d' "$i" | dd of=words conv=notrunc status=none
    sleep 0.02
  done
  printf 'theend..' | dd of=words conv=notrunc status=none
) &
NATIVE=no record_tree watcher "$O" watcher "$T/words"
wait
# It opens, writes and closes the file all the time, which the recorded one maps again and again: at any step of that.
head -c 4096 /dev/zero >again
"$O" rewriter "$T/again" &
for round in 1 2; do NATIVE=no record_tree "again$round" "$O" remapper "$T/again"; done
# … and also while that one becomes another program.
NATIVE=no REPLAYS=1 record_tree becomer "$O" becomer "$T/again" 30
grep -qx 'became all of them' becomer.out || fail "it did not live through its becoming another program"
rm again
wait
# It is sent a descriptor.
for how in one many; do
  "$P/tree_sent" serve "$T/socket.$how" &
  comes [ -S "socket.$how" ]
  NATIVE=no record_tree "sent_$how" "$P/tree_sent" "$how" "$T/socket.$how"
  "$BACKSTEP" info "sent_$how" | seen 'shared with processes that are not recorded' ||
    fail "info does not tell of the outsider that was sent a descriptor ($how)"
  wait
done
# It attaches a System V segment later.
mkfifo there back
for round in 1 2; do
  "$P/tree_segment" outsider "$T/there" "$T/back" &
  NATIVE=no record_tree "segment$round" "$P/tree_segment" recorded "$T/there" "$T/back"
  wait
  grep -q '^120005 ' "segment$round.out" || fail "additions were lost: $(cat "segment$round.out")"
  "$BACKSTEP" info "segment$round" | seen 'shared with processes that are not recorded' ||
    fail "info does not tell of the outsider that attached a segment"
done
# shellcheck disable=SC2010
! ls named1 followed late | seen '^shared-' || fail "control files were left behind"
ok
