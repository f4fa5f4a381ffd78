#!/usr/bin/env bash
# Going from match to match, forwards and backwards, comes by the same places, and these are the ones that 'log' lists:
# of places in the code, periods, and what the log knows (system calls, signals, forks, threads), alone and together.
source "$(dirname "$0")/lib.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
for program in 'sig_async 5' sig_nested thr_futex thr_fork tree_shared; do
  # shellcheck disable=SC2086  # a program and its arguments
  "$BACKSTEP" record -q -o "${program% *}" "$P/"$program >/dev/null 2>&1 </dev/null || true
done
# What the log lists without a replay is what a replay counts.
for program in sig_async sig_nested thr_futex thr_fork; do
  [ "$("$BACKSTEP" count --json syscall "$program" | field 0.count)" = "$("$BACKSTEP" syscalls -p '#1' "$program" | wc -l)" ] ||
    fail "$program: not all of its calls are counted"
done
"$PYTHON" - <<'PY' || fail "not the same both ways"
import random
import backstep

MOST = 40
KINDS = ["syscall write", "syscall write after", "syscall", "syscall after", "syscall after if $retval < 0",
         "syscall if $rax != 1", "signal", "signal USR1", "signal if $tick % 2 == 0", "fork", "thread", "call main",
         "call main then syscall", "every 5000", "syscall in [3000,7000)", "nth 3 of syscall"]
rng = random.Random(1)
walks = 0


def walk(way, specs, there, what):
    """Goes on until there is no more, or for a while; `there`: of each event, the places that are to come."""
    seen = []
    while len(seen) < MOST:
        m = way(*specs)
        if m.why != "event":
            break
        seen.append(m.at)
    for spec, places in zip(specs, there):
        mine = [at for at in seen if at in places]
        assert mine == (places if len(seen) < MOST else places[:len(mine)]), (what, specs, spec, seen, places[:MOST])
    assert not set(seen) - set(sum(there, [])), (what, specs, set(seen) - set(sum(there, [])))
    return seen


for name in ["sig_async", "sig_nested", "thr_futex", "thr_fork", "tree_shared"]:
    with backstep.open(name) as s:
        last = s.goto("end").tick
        for _ in range(12):
            specs = rng.sample(KINDS, rng.choice([1, 1, 2, 4]))
            hits = [list(s.log(spec)) for spec in specs]
            start = s.goto(str(rng.randrange(last)))
            behind = [[h.at for h in some if h.tick >= start.tick and h.at != start.at] for some in hits]
            before = [[h.at for h in reversed(some) if h.tick < start.tick] for some in hits]
            for way, back, there in (s.forward, s.backward, behind), (s.backward, s.forward, before):
                s.goto(start.at)
                seen = walk(way, specs, there, (name, way.__name__, start.at))
                # … and back again, from the last one. (What is at the start itself is met as well then.)
                for at in reversed(seen[:-1]):
                    if s.now().why == "event" or len(seen) == MOST:
                        m = back(*specs)
                        assert m.at == at, (name, specs, back.__name__, m.at, at)
                walks += 1
print(walks, "walks")
PY
ok
