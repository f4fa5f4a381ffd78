#!/usr/bin/env bash
# An outsider attaches a System V segment while the recorded program computes on it, without any call that could tell:
# what cannot be known is a gap, all else is exact, and one can travel over the gap both ways. Also while recorded
# processes take pages from each other; and with a file, where we are told, so that there is no gap.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
export LIMIT=$PATIENCE
O=$P/tree_gap
gaps() { "$BACKSTEP" dump --json "$1" | "$PYTHON" -c '
import json, sys
for line in sys.stdin:
    e = json.loads(line)
    if e["kind"] == "gap":
        print(e["event"], e["tick"], e["tick"] + e["ticks"])'; }
with_gap=
for round in 1 2 3; do
  for how in spin clock threads timer children file; do
    name=rec-$how$round
    rm -f id id.memory
    "$O" outsider "$T/id" &
    NATIVE=no record_tree "$name" "$O" recorded "$how" "$T/id"
    wait $! || fail "the outsider of $name"
    "$BACKSTEP" info "$name" >about
    if [ -n "$(gaps "$name")" ]; then
      [ "$how" != file ] || fail "a gap with a file"
      grep -q 'ticks until that was noticed are not in the recording (a gap)' about || fail "info does not tell of the gap"
      [ "$how" != spin ] || with_gap=$name
    fi
  done
done
# It comes while a call waits that reads from the memory.
mkfifo fifo
rm -f id
"$O" outsider "$T/id" "$T/fifo" &
NATIVE=no record_tree sender "$O" sender "$T/fifo" "$T/id"
wait $! || fail "the sender's outsider"
[ -z "$(gaps sender)" ] || fail "a gap in a call"

# One spins for nearly all of its time.
[ -n "$with_gap" ] || fail "three outsiders came, and never while it computed"
read -r event from to < <(gaps "$with_gap")
in_gdb "${with_gap#rec-}" "goto event $event" when stepi when reverse-stepi when reverse-stepi when "goto @$((from + 1))" when 'goto end' \
  reverse-continue when
printed "^@$from:0x[0-9a-f]+, event $event,"
printed "^@$to:0x"
times 2 "^@$from:0x"
printed "in a gap of the recording, $((to - from)) ticks long"
printed '^@0:0x'

# The recorder is killed while it writes what memory was like behind the gap: then the recording ends in front of it.
copy_recording "$with_gap" cut
"$PYTHON" - "$(log_of cut)" "$event" <<'PY'
import struct, sys
path, wanted = sys.argv[1], int(sys.argv[2])
data = bytearray(open(path, "rb").read())
at, number = struct.unpack_from("<I", data, 12)[0], 0
while True:
    capacity, state = struct.unpack_from("<I", data, at + 24)[0], struct.unpack_from("<Q", data, at + 32)[0]
    used, event = state & 0xffffffff, at + 64
    while event < at + 64 + used:
        size = struct.unpack_from("<I", data, event + 4)[0]
        event += size
        number += 1
        if number == wanted + 3:  # the gap and two of its parts
            break
    if number == wanted + 3:
        break
    at += capacity
# What a killed recorder leaves behind: the length and the checksum of what is complete.
crc, p = 0, at + 64
table = []
for i in range(256):
    c = i
    for _ in range(8):
        c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
    table.append(c)
while p < event:
    size = struct.unpack_from("<I", data, p + 4)[0]
    for byte in data[p:p + size - 2]:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    p += size
struct.pack_into("<Q", data, at + 32, (event - at - 64) | crc << 32)
open(path, "wb").write(data[:at + capacity])
PY
"$BACKSTEP" replay --autopilot --json cut >out 2>cut.json || { cat cut.json; fail "a log that ends in a gap: status $?"; }
grep -q 'the recorder was ended before the program' cut.json || { cat cut.json; fail "no word about the end"; }
[ "$(tail -n 1 cut.json | field ticks)" = "$from" ] || { cat cut.json; fail "the replay did not end where the gap begins, at $from"; }
ok
