"""cluster_compare.py RUN.json TRUTH...: are the messages that 'cluster ls --messages --json' tells those that tests/programs/cluster_chatter.c
has written down? Each send and receive of the truth is named by its process and by how many such calls that had made before."""
import collections
import json
import sys

run = json.load(open(sys.argv[1]))
pids = {p["name"]: p["pid"] for p in run["processes"]}
calls = collections.defaultdict(list)  # (pid, is it sent) -> [(connection, kind, offset, bytes)]
for path in sys.argv[2:]:
    for line in open(path):
        pid, what, number, where, offset, size = line.split()
        mine = calls[int(pid), what == "S"]
        assert len(mine) == int(number), line
        mine.append((where, what, int(offset), int(size)))


def connection_calls(where, sent, of):
    return [(pid, k, what, offset, size) for (pid, s), list_ in calls.items() if s == sent and pid in of
            for k, (w, what, offset, size) in enumerate(list_) if w == where]


# Which pids are a connection's two sides: those that have it.
sides = collections.defaultdict(set)
for (pid, _), list_ in calls.items():
    for where, *_ in list_:
        sides[where].add(pid)
want, lost = set(), 0
for where, pair in sides.items():
    for sender in pair:
        sends = connection_calls(where, True, {sender})
        receives = connection_calls(where, False, pair - {sender})
        if where == "udp":
            got = {offset: (pid, k, size) for pid, k, _, offset, size in receives}
            for pid, k, _, offset, size in sends:
                if offset in got:
                    want.add((pid, k, got[offset][0], got[offset][1], 0, size))
                else:
                    lost += 1
            continue
        for pid, k, _, offset, size in sends:
            for other, j, _, at, n in receives:
                first, last = max(offset, at), min(offset + size, at + n)
                if first < last:
                    want.add((pid, k, other, j, first, last - first))

# Which call of its process a point is: by the numbers of the events.
numbers = collections.defaultdict(set)
for m in run["messages"]:
    numbers[m["sent"]["process"], True].add(m["sent"]["event"])
    numbers[m["received"]["process"], False].add(m["received"]["event"])
for u in run["unmatched"]:
    numbers[u["point"]["process"], u["sent"]].add(u["point"]["event"])
order = {key: {event: k for k, event in enumerate(sorted(events))} for key, events in numbers.items()}
for (name, sent), events in order.items():
    expected = calls.get((pids[name], sent), [])
    assert len(events) == len(expected), f"{name} has {len(expected)} calls, {len(events)} are told"

found = set()
for m in run["messages"]:
    a, b = m["sent"], m["received"]
    datagram = m["channel"].startswith("udp")
    assert m["checked"] or m["peeked"], m
    found.add((pids[a["process"]], order[a["process"], True][a["event"]], pids[b["process"]],
               order[b["process"], False][b["event"]], 0 if datagram else m["offset"], m["bytes"]))
assert len(found) == len(run["messages"]), "some are told twice"
if found != want:
    sys.exit(f"missing {sorted(want - found)[:5]}, too much {sorted(found - want)[:5]}")
assert sum(1 for u in run["unmatched"] if u["sent"]) == lost, (lost, run["unmatched"])
assert not [u for u in run["unmatched"] if not u["sent"]]
print(len(found), "messages,", lost, "datagrams lost")
