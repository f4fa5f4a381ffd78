#!/usr/bin/env bash
# Events that stay in a session: created, installed, spent, alive again when time goes back; actions that install others; several that
# match at one moment. Random sets of events and random walks are compared with a model that knows all matches from 'log'.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
cat >steps.c <<'C'
#include <pthread.h>
#include <stdio.h>
#define STEP __attribute__((noinline))
long total, odd;
STEP int leaf(int n) { return n % 7; }
STEP void even_step(int n) { total += leaf(n); }
STEP void odd_step(int n) { odd += leaf(n + 1); }
static void* work(void* p) { for (int i = 0; i < 12; i++) even_step(i); return p; }
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, work, 0);
  for (int i = 0; i < 40; i++) (i % 3 ? even_step : odd_step)(i);
  pthread_join(t, 0);
  puts("done");
  return total == odd;
}
C
gcc -g -O1 -o steps steps.c -pthread
expect 0 "$BACKSTEP" record -q -o run ./steps
cat >life.py <<'PY'
import backstep

with backstep.open("run") as s:
    calls = [h.at for h in s.log("call odd_step")]
    assert len(calls) == 14
    # Without an action it stops; both ways.
    e = s.create_event("call odd_step", "n")
    assert [s.run().at for _ in calls] == calls
    assert s.run().why == "end"
    assert [s.run(back=True).at for _ in calls] == calls[::-1] and s.run(back=True).why == "start"
    assert e.state()["matches"] == 14, e.state()
    e.uninstall()
    assert s.run().why == "end"
    s.goto("start")
    e.install()
    assert s.run().at == calls[0]
    e.destroy()
    try:
        s.install(e)
        raise SystemExit("a destroyed event was installed")
    except backstep.Error as error:
        assert "there is no event" in str(error), error

    # Spent after two, and alive again.
    s.goto("start")
    twice = s.create_event("call odd_step", times=2)
    assert [s.run().at, s.run().at] == calls[:2] and twice.state()["spent"]
    assert s.run().why == "end"
    assert s.run(back=True).at == calls[1], "back over its last match, not those behind it"
    assert s.run().why == "end", "it is spent there"
    s.goto(calls[0])
    assert not twice.state()["spent"] and s.run().at == calls[1] and twice.state()["matches"] == 2
    twice.destroy()

    # An action sees its moment, and installs another event: the first leaf behind each third step.
    seen, leaves = [], []
    def third(hit):
        assert s.now().at == hit.at and s.value("n") == hit.values["n"]
        seen.append(hit.values["n"])
        if hit.values["n"] % 9 == 0:
            s.create_event("call leaf", "$arg0", times=1, action=lambda h: leaves.append(h.values["$arg0"]))
    s.goto("start")
    s.create_event("call odd_step", "n", action=third)
    assert s.run().why == "end"
    assert seen == list(range(0, 40, 3)) and leaves == [n + 1 for n in seen if n % 9 == 0], (seen, leaves)
    for event in s.events():
        s.ask("destroy", event_id=event["event_id"])

    # Several at one moment all get their action, logs and counts go on, and whoever writes has written.
    s.goto("start")
    met = []
    a = s.create_event("call odd_step", action=lambda h: met.append("a"))
    b = s.create_event("call odd_step if $arg0 == 6", action=lambda h: met.append("b") or True)
    log = s.create_event("call leaf", "$arg0", action="log")
    count = s.create_event("call leaf", action="count")
    moment = s.run()
    assert met == ["a", "a", "a", "b"] and moment.at == calls[2], (met, moment)
    assert len(log.hits) == count.state()["matches"] == s.count("call leaf", end=moment.at), log.hits
    for event in (a, b, log, count):
        event.destroy()
    w = s.create_event("change odd", "$new")
    for change in s.log("change odd", "$new", start=moment.at):
        assert s.run().why == "event" and s.value("odd") == change.values["$new"]
PY
"$PYTHON" life.py || fail "the life of events"
cat >walks.py <<'PY'
"""walks.py SEED: random events and walks. The model has, of each event, the moments of all of its matches."""
import random, sys
import backstep

SPECS = ["call leaf", "call even_step", "call odd_step if $arg0 > 9", "change total", "write odd", "return leaf if $retval == 3",
         "every 50", "nth 3 of call leaf", "call odd_step then call leaf", "syscall", "steps.c:6"]
rng = random.Random(int(sys.argv[1]))
with backstep.open("run") as s:
    matches = {spec: [h.at for h in s.log(spec)] for spec in SPECS}
    # The order of moments: ticks, events of the log, addresses.
    def place(at):
        moment = s.goto(at)
        return moment.tick, moment.event, moment.pc
    order = sorted({at for all_of in matches.values() for at in all_of}, key=place)
    rank = {at: i for i, at in enumerate(order)}
    for _ in range(8):
        start = now = rank.get(s.goto("start").at, -1)
        chosen = rng.sample(SPECS, rng.randrange(1, 5))
        model = {}
        for spec in chosen:
            times = rng.choice([0, 0, 1, 3])
            model[s.create_event(spec, times=times).event_id] = [spec, times, []]  # its matches up to now
        for _ in range(14):
            back = rng.random() < 0.4
            if rng.random() < 0.15 and order:
                target = rng.choice(order)
                s.goto(target)
                now = rank[target]
                for m in model.values():
                    m[2] = [r for r in m[2] if r <= now]
            ids, at = [], None
            if back:
                for m in model.values():
                    m[2] = [r for r in m[2] if r < now]
                candidates = {}
                for id_, (spec, times, had) in model.items():
                    if times and len(had) >= times:
                        ranks = had[-1:]
                    else:
                        ranks = [rank[x] for x in matches[spec] if rank[x] < now]
                    if ranks: candidates[id_] = ranks[-1]
                if candidates:
                    at = max(candidates.values())
                    ids = [i for i, r in candidates.items() if r == at]
            else:
                candidates = {}
                for id_, (spec, times, had) in model.items():
                    if times and len(had) >= times: continue
                    ranks = [rank[x] for x in matches[spec] if rank[x] > now]
                    if ranks: candidates[id_] = ranks[0]
                if candidates:
                    at = min(candidates.values())
                    ids = [i for i, r in candidates.items() if r == at]
                    for i in ids:
                        if model[i][1]: model[i][2].append(at)
            answer = s.ask("run", back=back)
            got = sorted(m["event_id"] for m in answer["matches"])
            where = {m["at"] for m in answer["matches"]}
            told = f"{chosen}, {'back' if back else 'forward'} from {(['start'] + order + ['end'])[now + 1]}: {answer}"
            if at is None:
                assert not got and answer["why"] in ("end", "start"), told
                now = len(order) if answer["why"] == "end" else start
            else:
                assert got == sorted(ids) and where == {order[at]}, f"{told}\nexpected {sorted(ids)} at {order[at]}"
                now = at
                for m in model.values():
                    m[2] = [r for r in m[2] if r <= now]
        for event in s.events():
            spec, times, had = model[event["event_id"]]
            assert not times or event["matches"] == len([r for r in had if r <= now]), (event, had, now)
            s.ask("destroy", event_id=event["event_id"])
PY
for seed in ${SEED:-1 2}; do
  "$PYTHON" walks.py "$seed" || fail "walk $seed"
done
expect 0 "$BACKSTEP" checkpoints --make --every 0.001 run
"$PYTHON" life.py || fail "the life of events, with checkpoints"
"$PYTHON" walks.py 3 || fail "walk 3, with checkpoints"
ok
