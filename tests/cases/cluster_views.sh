#!/usr/bin/env bash
# The views of a run agree with each other and with what the program did: tables, the order of events, a request's way, the picture.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cases/cluster_chain.bash
source "$(dirname "$0")/cluster_chain.bash"

# Four requests, each of which goes over three hops of four bytes.
[ "$(sql "SELECT count(*) FROM messages")" = 12 ] || fail "not 12 messages: $(cluster sql run 'SELECT sender, receiver, bytes FROM messages')"
[ "$(sql "SELECT sum(bytes) FROM messages WHERE sender = 'A/chain' AND receiver = 'A/chain.1'")" = 16 ] || fail "bytes to the server"
[ "$(sql "SELECT count(*) FROM processes")" = 3 ] || fail "not three processes"
# Logical time grows along every message; the causal order knows more than that.
[ "$(sql "SELECT count(*) FROM messages WHERE sent_time >= received_time")" = 0 ] || fail "received before it was sent, in logical time"
[ "$(sql "SELECT count(*) FROM messages WHERE NOT happened_before(sender, sent_event, receiver, received_event)")" = 0 ] || fail "happened_before"
[ "$(sql "SELECT count(*) FROM messages WHERE happened_before(receiver, received_event, sender, sent_event)")" = 0 ] || fail "happened_before, back"
# An assertion over all processes: the worker's n-th answer comes behind the client's n-th question, and before the next.
[ "$(sql "WITH q AS (SELECT sent_event e, row_number() OVER (ORDER BY sent_event) n FROM messages WHERE sender = 'A/chain'),
               a AS (SELECT sent_event e, row_number() OVER (ORDER BY sent_event) n FROM messages WHERE sender = 'A/chain.2')
          SELECT count(*) FROM q JOIN a WHERE happened_before('A/chain', q.e, 'A/chain.2', a.e) <> (q.n <= a.n)")" = 0 ] ||
  fail "answers and questions are in another order"

# Tables of the recordings, with processes by their names in the run.
[ "$(sql "SELECT count(*) FROM syscalls s JOIN messages m ON s.process = m.sender AND s.event = m.sent_event WHERE s.name = 'write'")" = 12 ] ||
  fail "the calls of the messages"
[ "$(sql "SELECT count(*) FROM calls WHERE process = 'A/chain.2' AND function = 'add'")" = 4 ] || fail "calls of the worker's add()"
[ "$(sql "SELECT sum(ret) FROM calls WHERE process IN ('A/chain.2', 'A/chain') AND function = 'add'")" = 66 ] || fail "results of add()"
expect 2 cluster sql run "SELECT * FROM calls WHERE function = 'add'"
says 'say what .*process'
expect 2 cluster sql run "SELECT line(1, 'A/nobody')"
says "is no process of the run"
cluster sql run .tables | seen '^messages ' || fail ".tables"
cluster events run 'A/chain.2' message-transmission --csv >out
[ "$(wc -l <out)" = 5 ] || fail "events of the worker: $(cat out)"

# The way of the third request: client, server, worker, client.
cluster path run A/chain "$WRONG" --json --depth 3 >path.json
"$PYTHON" - path.json <<'PY' || fail "the request's way: $(cat path.json)"
import json, sys
path = json.load(open(sys.argv[1]))
way = [(h["from"], h["to"]) for h in path["hops"][:path["before"]]]
assert way == [("A/chain", "A/chain.1"), ("A/chain.1", "A/chain.2"), ("A/chain.2", "A/chain")], way
assert "check at chain.c" in path["where"], path
assert "put at chain.c" in path["hops"][0]["from_where"], path
PY

# The picture is XML, with a line for each process and an arrow for each message.
expect 0 cluster break run A/chain "$WRONG" --quick
expect 0 cluster svg run --title 'a < b' -o run.svg
"$PYTHON" - run.svg <<'PY' || fail "the picture"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
by_class = {}
for e in root.iter():
    by_class[e.get("class")] = by_class.get(e.get("class"), 0) + 1
assert by_class["life"] == 3 and by_class["message"] == 12 and by_class["cut"] == 1 and by_class["stop"] == 1, by_class
PY
expect 0 cluster svg run --from 40% --to 60% --only A/chain.2,A/chain --cut none
[ "$(grep -c 'class="life"' "$T/out")" = 2 ] || fail "two processes"
seen 'class="cut"' <"$T/out" && fail "a cut that was not asked for"
expect 2 cluster svg run --from x
ok
