#!/usr/bin/env python3
"""Random events, asked of a recording and worked out from single steps (tests/reference): they must agree.

  events_agree.py BACKSTEP REFERENCE SEED ROUNDS RECORDING [--main] [--process N] [--most N]

--main: from main on, not from the first instruction. Prints how many questions there were."""
import argparse
import json
import os
import random
import shlex
import subprocess
import sys

PATIENCE = float(os.environ.get("PATIENCE", 600))
NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
MAPPING = {9, 10, 11, 12, 25}  # mmap, mprotect, munmap, brk, mremap


class Row:
    """A position: see reference.cc."""

    __slots__ = ("tick", "event", "pc", "thread", "kind", "regs", "accesses", "vague", "changes", "next_event")

    def __init__(self, line):
        f = line.split()
        self.tick, self.event, self.pc, self.thread = map(int, f[:4])
        self.kind = f[4]
        self.regs = list(map(int, f[5:21]))
        self.vague = False
        self.accesses = []
        for a in f[21].split(",") if f[21] != "-" else []:
            if a == "?":
                self.vague = True
                continue
            start, size = map(int, a[1:].split(":"))
            self.accesses.append((a[0], start, size))
        self.changes = set(map(int, f[22].split(","))) if f[22] != "-" else set()
        self.next_event = self.event

    executed = property(lambda self: self.kind in "is")


def trace(arguments, watch=()):
    command = [arguments.reference, "-p", str(arguments.process), "--from", str(arguments.start),
               "--most", str(arguments.most)]
    for start, size in watch:
        command += ["--watch", f"{start:#x}:{size}"]
    out = subprocess.run(command + [arguments.recording], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = out.splitlines()
    rows = [Row(line) for line in lines[:-1]]
    for a, b in zip(rows, rows[1:]):
        a.next_event = b.event
    return rows, lines[-1] == "end"


class Spec:
    """An event: its text, and indexes of the rows where it must match, or may (nobody can tell from the steps)."""

    def __init__(self, text, must, may=()):
        self.text, self.must, self.may = text, sorted(must), set(may) - set(must)

    def within(self, low, high):
        """Matches in a stretch of the rows: those that must be there, and those that may."""
        return [i for i in self.must if low <= i < high], {i for i in self.may if low <= i < high}


class Composed:
    """What is before the stretch does not count."""

    def __init__(self, text, parts, combine):
        self.text, self.parts, self.combine = text, parts, combine

    def within(self, low, high):
        return sorted(self.combine(*(p.within(low, high)[0] for p in self.parts))), set()


class Maker:
    def __init__(self, rng, rows, watch):
        self.rng, self.rows, self.watch = rng, rows, watch
        self.by_pc = {}
        self.first_of_tick = {}
        for i, r in enumerate(rows):
            if r.executed:
                self.by_pc.setdefault(r.pc, []).append(i)
            self.first_of_tick.setdefault(r.tick, i)
        self.pcs = sorted(self.by_pc)
        self.hot = sorted(p for p in self.pcs if len(self.by_pc[p]) > 200)

    def condition(self, spec, registers):
        """Restricts an event."""
        rng, rows = self.rng, self.rows
        kind = rng.randrange(7 if registers else 3)
        hits = spec.must or list(range(len(rows)))
        if kind == 0:
            n = rng.choice([2, 3, 7])
            text, holds = f"$tick % {n} == 0", lambda r: r.tick % n == 0
        elif kind == 1:
            t = rows[rng.choice(hits)].tick
            text, holds = f"$tick >= {t}", lambda r: r.tick >= t
        elif kind == 2:
            t = rows[rng.choice(hits)].thread
            text, holds = f"$thread == {t}", lambda r: r.thread == t
        else:
            reg = rng.randrange(16)
            value = rows[rng.choice(hits)].regs[reg]
            if value >= 1 << 63:
                value = 7
            name = "$" + NAMES[reg]
            text, holds = rng.choice([
                (f"(unsigned long){name} > {value}", lambda r: r.regs[reg] > value),
                (f"{name} == {value}", lambda r: r.regs[reg] == value),
                (f"((unsigned long){name} & 1) == 0 && $tick != 5", lambda r: r.regs[reg] % 2 == 0 and r.tick != 5),
                (f"(int){name} < 100", lambda r: ((r.regs[reg] & 0xffffffff) ^ (1 << 31)) - (1 << 31) < 100),
            ])
        return Spec(f"{spec.text} if {text}", [i for i in spec.must if holds(rows[i])],
                    [i for i in spec.may if holds(rows[i])])

    def era(self, spec):
        a, b = sorted(self.rng.choice(self.rows).tick for _ in "ab")
        b += self.rng.randrange(1, 5)
        keep = lambda some: [i for i in some if a <= self.rows[i].tick < b]
        return Spec(f"{spec.text} in [{a},{b})", keep(spec.must), keep(spec.may))

    def pc(self):
        pc = self.rng.choice(self.hot if self.hot and self.rng.random() < 0.4 else self.pcs)
        return Spec(self.rng.choice(["", "pc "]) + f"{pc:#x}", self.by_pc[pc])

    def every(self):
        n = self.rng.choice([1, 2, 3, 10, 64, 1000])
        return Spec(f"every {n}", [i for t, i in self.first_of_tick.items() if t % n == 0])

    def tick(self):
        t = self.rng.choice(self.rows).tick + self.rng.choice([0, 0, 0, 1])
        return Spec(self.rng.choice(["tick ", "@"]) + str(t), [self.first_of_tick[t]] if t in self.first_of_tick else [])

    def point(self):
        r = self.rng.choice(self.rows)
        there = [i for i in range(self.first_of_tick[r.tick], len(self.rows))[:5000]
                 if (self.rows[i].tick, self.rows[i].pc) == (r.tick, r.pc)]
        # Signal handlers that begin one inside the other, before their first branch, are several moments of one name.
        return Spec(f"@{r.tick}:{r.pc:#x}", there)

    def data(self):
        n = self.rng.randrange(len(self.watch))
        start, size = self.watch[n]
        kind = self.rng.choice(["write", "write", "change", "read", "access"])
        must, may = [], []
        for i, r in enumerate(self.rows):
            if n in r.changes and kind != "read":
                # When memory comes and goes is another question for those that may read what the program may not.
                (may if r.kind in "sc" and r.regs[0] in MAPPING else must).append(i)
                continue
            if kind == "change":
                continue
            # System calls and signals write without changing; what an instruction that faults would have done.
            if r.kind != "i":
                if r.next_event > r.event:
                    may.append(i)
                continue
            for how, a, length in r.accesses:
                if a >= start + size or start >= a + length or (how == "r" and kind == "write") or \
                        (how == "w" and kind == "read"):
                    continue
                (may if r.vague or r.next_event > r.event else must).append(i)
            if r.vague:
                may.append(i)
        spec = Spec(f"{kind} {start:#x} size {size}", set(must), may)
        return spec

    def simple(self):
        kinds = [self.pc] * 6 + [self.every, self.tick, self.point]
        if self.watch:
            kinds += [self.data] * 4
        make = self.rng.choice(kinds)
        spec = make()
        if self.rng.random() < 0.25:
            spec = self.era(spec)
        if self.rng.random() < 0.4:
            spec = self.condition(spec, make not in (self.data,))
        return spec

    def certain(self):
        while True:
            spec = self.simple()
            if not spec.may:
                return spec

    def place(self, least, most):
        """One that is met so often."""
        some = [p for p in self.pcs if least <= len(self.by_pc[p]) <= most] or self.pcs
        pc = self.rng.choice(some)
        return Spec(f"{pc:#x}", self.by_pc[pc])

    def gated(self):
        """Of several parts, one of which is frequent and matters at times only."""
        often = self.place(50, 10**9)
        rare = [self.place(2, 30), self.place(2, 30), self.certain()]
        if self.rng.random() < 0.6:  # what opens comes before what closes
            rare[:2] = sorted((self.tick() for _ in "bc"), key=lambda spec: spec.must)
        return self.composed(often, rare)

    def composed(self, often=None, rare=None):
        rng, rows = self.rng, self.rows
        a, b, c = rare or (self.certain(), self.certain(), self.certain())
        if often:
            a, b, c = rng.choice([(often, a, b), (a, often, b)])  # of between; of then and within

        def pairs(some_a, some_b):
            """Each a with the first b behind it."""
            for i in some_a:
                j = next((j for j in some_b if j > i), None)
                if j is not None:
                    yield i, j

        def between(some_a, some_b, some_c):
            inside, opened = [], False
            a_s, bs, cs = set(some_a), set(some_b), set(some_c)
            for i in sorted(a_s | bs | cs):
                if i in a_s and opened:
                    inside.append(i)
                opened = i in bs or (opened and i not in cs)
            return inside

        n = rng.choice([0, 1, 5, 50, 1000])
        k = rng.choice([1, 2, 3, 10])
        nest = lambda some, outer: Composed(f"{a.text} between {b.text} and {c.text} then {outer.text}", [a, b, c, outer],
                                            lambda x, y, z, o: {j for _, j in pairs(some(x, y, z), o)})
        forms = [
            nest(between, self.certain()),
            Composed(f"{a.text} then {b.text} between {c.text} and {a.text}", [a, b, c],
                     lambda x, y, z: {j for _, j in pairs(x, between(y, z, x))}),
            Composed(f"{a.text} then {b.text}", [a, b], lambda x, y: {j for _, j in pairs(x, y)}),
            Composed(f"{a.text} and within {n} ticks {b.text}", [a, b],
                     lambda x, y: {j for i, j in pairs(x, y) if rows[j].tick - rows[i].tick <= n}),
            Composed(f"{a.text} between {b.text} and {c.text}", [a, b, c], between),
            Composed(f"{a.text} then {a.text}", [a], lambda x: x[1:]),
            Composed(f"nth {k} of {a.text}", [a], lambda x: x[k - 1::k]),
        ]
        if often:  # in those two it matters everywhere
            forms = forms[:1] + forms[4:5] if a is often else forms[1:4]
        return rng.choice(forms)

    def crowd(self):
        """Many at one place, and periods, in eras that mostly are not those of the others."""
        often, some = self.place(50, 10**9), []
        for _ in range(self.rng.choice([3, 70])):
            spec = self.era(self.every() if self.rng.random() < 0.1 else often)
            some.append(self.condition(spec, True) if self.rng.random() < 0.2 else spec)
        return some + [often]

    def any(self):
        return self.composed() if self.rng.random() < 0.25 else self.simple()


def manner():
    """How the replays were made, which is not in the command."""
    names = ["BACKSTEP_WINDOW", "BACKSTEP_LEG", "BACKSTEP_GATE", "BACKSTEP_LAST"]
    return " ".join(f"{name}={os.environ[name]}" for name in names if os.environ.get(name))


class Asker:
    def __init__(self, arguments, rows):
        self.arguments, self.rows, self.questions, self.bad = arguments, rows, 0, 0

    def run(self, *words):
        command = [self.arguments.backstep, *words, "-p", f"#{self.arguments.process}", self.arguments.recording]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            print(f"'{manner()} {shlex.join(command)}' does not end", file=sys.stderr)
            self.bad += 1
            return None
        if done.returncode:
            print(f"'{manner()} {shlex.join(command)}' ended with {done.returncode}: {done.stderr}", file=sys.stderr)
            self.bad += 1
            return None
        return done.stdout

    def wrong(self, what, spec, stretch, said):
        self.bad += 1
        print(f"WRONG {what}: '{spec.text}' {' '.join(stretch)} {manner()}: {said}", file=sys.stderr)

    def count(self, specs, stretch, low, high):
        out = self.run("count", "--json", *stretch, *[s.text for s in specs])
        if out is None:
            return
        for spec, answer in zip(specs, json.loads(out)):
            self.questions += 1
            must, may = spec.within(low, high)
            least, most = len(must), len(must) + len(may)
            if not least <= answer["count"] <= most:
                self.wrong("count", spec, stretch, f"{answer['count']}, not {least}" +
                           (f" to {most}" if most > least else ""))

    def log(self, spec, stretch, low, high, last=None):
        name = lambda i: (self.rows[i].tick, self.rows[i].pc, self.rows[i].thread)
        must, may = spec.within(low, high)
        must, may = [name(i) for i in must], {name(i) for i in may}
        if last and may:
            return
        out = self.run("log", "--json", *stretch, *(["--last", str(last)] if last else []), spec.text)
        if out is None:
            return
        self.questions += 1
        said = [(o["tick"], o["pc"], o["thread"]) for o in map(json.loads, out.splitlines())]
        required = must[-last:] if last else must
        if said != required and not (may and [s for s in said if s not in may or s in must] == required):
            extra = [f"@{t}:{p:#x} of {n}" for t, p, n in said if (t, p, n) not in required][:3]
            missing = [f"@{t}:{p:#x} of {n}" for t, p, n in required if (t, p, n) not in said][:3]
            self.wrong("log", spec, stretch + (["--last", str(last)] if last else []),
                       f"{len(said)} lines, not {len(required)}; too much {extra}, missing {missing}")


def stretches(rng, rows, start, ended, whole):
    """Words for [a,b), and the rows that are in it."""
    first_of_tick = {}
    for i, r in enumerate(rows):
        first_of_tick.setdefault(r.tick, i)
    last = first_of_tick[rows[-1].tick]
    yield (["--from", str(start)] if start else []) + ([] if ended else ["--to", str(rows[last].tick)]), 0, whole
    while True:
        a, b = sorted(rng.choice(range(whole)) for _ in "ab")
        words, bounds = [], []
        for option, i in ("--from", a), ("--to", b):
            r = rows[i]
            if rng.random() < 0.5:
                words += [option, str(r.tick)]
                bounds.append(first_of_tick[r.tick])
            else:
                words += [option, f"@{r.tick}:{r.pc:#x}"]
                bounds.append(next(j for j in range(first_of_tick[r.tick], i + 1) if rows[j].pc == r.pc))
        if bounds[0] < bounds[1]:
            yield words, *bounds


def main():
    parser = argparse.ArgumentParser()
    for name in "backstep", "reference":
        parser.add_argument(name)
    parser.add_argument("seed", type=int)
    parser.add_argument("rounds", type=int)
    parser.add_argument("recording")
    parser.add_argument("--main", action="store_true")
    parser.add_argument("--process", type=int, default=1)
    parser.add_argument("--most", type=int, default=20000)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    arguments.start = 0
    asker = Asker(arguments, [])
    if arguments.main:
        arguments.start = json.loads(asker.run("log", "--json", "--limit", "1", "pc main"))["tick"]
    rows, ended = trace(arguments)
    # Memory to watch: something that was accessed, and its neighbours.
    code = {r.pc >> 12 for r in rows}  # reads of such pages cannot be watched
    accesses = [a for r in rows if r.kind == "i" for a in r.accesses
                if not {a[1] - 40 >> 12, a[1] + 80 >> 12} & code]
    watch = []
    for _ in range(5 if accesses else 0):
        _, start, size = rng.choice([a for a in accesses if a[0] != "r"] or accesses)
        watch.append((max(start + rng.choice([0, 0, 0, -1, 3]), 1), rng.choice([size, size, 1, 2, 8, 40])))
    rows, _ = trace(arguments, watch)
    whole = len(rows) if ended else next(i for i, r in enumerate(rows) if r.tick == rows[-1].tick)
    asker.rows = rows
    maker = Maker(rng, rows, watch)
    some = stretches(rng, rows, arguments.start, ended, whole)
    for round_number in range(arguments.rounds):
        words, low, high = next(some)
        specs = [maker.any() for _ in range(rng.choice([1, 3, 30]))]
        # In how many windows it is done makes no difference.
        os.environ["BACKSTEP_WINDOW"] = rng.choice(["", "", "1", "7", "100"]) if round_number else ""
        if os.environ["BACKSTEP_WINDOW"] == "1" and rows[high - 1].tick - rows[low].tick > 300:
            os.environ["BACKSTEP_WINDOW"] = "50"
        # Nor do replays that come too far and are made again.
        # (The shortest ones make a way of a thousand stops, which is too much for each of many windows: 10 s of CPU time a question.)
        many = os.environ["BACKSTEP_WINDOW"] in ("1", "7")
        os.environ["BACKSTEP_LEG"] = rng.choice(["", "", "" if many else "1e-5", "1e-4"])
        asker.count(specs, words, low, high)
        asker.count(maker.crowd(), words, low, high)
        # Nor does it if parts of what is made of several are left out where they cannot matter.
        os.environ["BACKSTEP_GATE"] = "1"
        for _ in range(3):
            composed = maker.gated()
            asker.count([composed], words, low, high)
            asker.log(composed, words, low, high)
        if rng.random() < 0.5:
            del os.environ["BACKSTEP_GATE"]
        asker.log(rng.choice(specs), words, low, high)
        # Nor into how many parts the run is divided to find the last ones.
        if few := rng.choice(["", "3", "40"]):
            os.environ["BACKSTEP_LAST"] = few
        asker.log(rng.choice(specs), words, low, high, rng.choice([1, 5, 1000]))
        asker.log(maker.simple(), words, low, high, rng.choice([1, 5, 50]))
        os.environ.pop("BACKSTEP_LAST", None)
        os.environ.pop("BACKSTEP_GATE", None)
    print(f"{arguments.recording}: {len(rows)} positions, {asker.questions} answers, {asker.bad} wrong")
    sys.exit(1 if asker.bad else 0)


main()
