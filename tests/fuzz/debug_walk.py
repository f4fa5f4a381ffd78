"""Random debug code along with random walks: sessions that go forwards and backwards in a recording of victim.c, in its
threads, signal handlers and forked children, with code that means harm going along (debug_code.py).

    debug_walk.py SEED RECORDING FOLDER [--gdb]    walks once; says what is wrong, and ends with 1

What must hold: the program's state at each moment is what it is without debug code; with --debug-state=follow, what the code
says at a moment is what it says there when it runs from the beginning, each word once, and none is missing; with keep it
goes on from what it was. BACKSTEP: the program. A walk through gdb compares registers and checksums with those of the
same walk without debug code.
"""
import os
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import backstep  # noqa: E402
import debug_code  # noqa: E402

VICTIM = os.path.join(os.path.dirname(__file__), "victim.c")
COUNTING = 'static long calls; printf("work %ld %d\\n", ++calls, n);'
NEVER = re.compile("divergence|diverged|internal error|ended unexpectedly|bug in backstep|stranger")


class Wrong(Exception):
    pass


def places():
    lines = open(VICTIM).read().split("\n")
    return {int(m.group(1)): i + 1 for i, line in enumerate(lines) if (m := re.search(r"/\* AT (\d) \*/", line))}


def make(r, folder):
    """{place: code}, the counting one among them; others that mean harm. Written down, for whoever looks at a failure."""
    at = {}
    for n, line in r.sample(sorted(places().items()), r.randint(1, 4)):
        at[f"victim.c:{line}"] = debug_code.text_of(debug_code.make(r), r.choice([1, 2, 3]))
    at["work"] = COUNTING
    folder.mkdir(parents=True, exist_ok=True)
    for place, code in at.items():
        (folder / (place + ".cc")).write_text(code + "\n")
    return at


def is_counting(said):
    return said.get("code", "").startswith("--at work")


def text(said):
    return next((f"{kind}: {said[kind]}" for kind in ("output", "errors", "failure", "complaint", "mark", "log", "stop")
                 if kind in said), "")


class Walk:
    def __init__(self, r, recording, folder):
        self.r = r
        self.at = make(r, folder)
        self.keep = r.random() < 0.4
        self.session, self.plain = backstep.open(recording), backstep.open(recording)
        numbers = [p["process"] for p in self.session.processes()]
        self.process = r.choice(numbers)
        for s in (self.session, self.plain):
            if self.process != 1:
                s.use_process(self.process)
        self.said = []
        self.session.on_debug = self.said.append
        self.last = self.plain.goto("end").tick
        self.path = []
        # What it says from the beginning to the end.
        self.reference = [m for m in self.plain.probe(at=self.at) if is_counting(m)]
        print(f"  process {self.process}, {'keep' if self.keep else 'follow'}, {len(self.reference)} words, at "
              f"{', '.join(self.at)}", flush=True)
        self.chain = []  # what was said since the session last jumped …
        self.since = 0   # … to this tick
        self.counted = 0

    def moves(self):
        r, s = self.r, self.session
        event = r.choice(["call work", "return at", "call handler", "syscall", f"tick {r.randint(1, self.last)}", "line victim.c:18",
                          "call work if $arg0 == %d" % r.randint(0, 40), "signal", "thread"])
        return r.choices([
            (True, f"forward {event}", lambda: s.forward(event)),
            (False, f"backward {event}", lambda: s.backward(event)),
            (False, "goto", lambda: s.goto(str(r.randint(0, self.last)))),
            (False, "goto start", lambda: s.goto("start")),
            (True, "forward", lambda: s.forward()),
            (True, "step", lambda: s.step(r.randint(1, 30))),
            (False, "step back", lambda: s.step(r.randint(1, 30), back=True)),
            (None, "step over", lambda: s.step(by=r.choice(["line", "over", "out"]))),
            (None, "step back over", lambda: s.step(by=r.choice(["line", "over", "out"]), back=True)),
            (None, "debug again", self.again),
            (None, "checkpoint", lambda: (s.checkpoint(), s.now())[1]),
            (False, "restart", self.restart),
        ], [8, 5, 5, 1, 1, 3, 2, 2, 1, 0.3, 1, 1])[0]

    def restart(self):
        checkpoints = self.session.checkpoints()
        return self.session.restart(self.r.choice(checkpoints)) if checkpoints else self.session.now()

    def again(self):
        self.session.debug(at=self.at, keep=self.keep)
        return self.session.now()

    def run(self, steps):
        self.session.goto(str(self.r.randint(0, self.last)))
        self.session.debug(at=self.at, keep=self.keep)
        self.jumped()
        for _ in range(steps):
            forwards, name, move = self.moves()
            before = len(self.said)
            try:
                moment = move()
            except backstep.Error as e:
                if NEVER.search(str(e)):
                    raise
                moment = self.session.now()
            self.path.append(f"{name} -> {moment.at}")
            words = [m for m in self.said[before:] if is_counting(m)]
            for m in self.said[before:]:
                if NEVER.search(text(m)):
                    raise Wrong(f"it says: {text(m)}")
            self.check_words(forwards, name, words, moment)
            if self.r.random() < 0.5:
                self.check_state(moment)
        self.session.debug()
        self.session.close()
        self.plain.close()

    def jumped(self):
        self.chain, self.since = [], self.session.now().tick

    def check_words(self, forwards, name, words, moment):
        if forwards is not True:
            if forwards is False and words:
                raise Wrong(f"{name} is not silent: {text(words[0])}")
            return self.jumped()
        if self.keep:
            for m in words:
                count = int(m["output"].split()[1])
                if name != "debug again" and count <= self.counted and self.counted:
                    if not any("debug again" in p for p in self.path):
                        raise Wrong(f"kept, but {self.counted} is followed by {count}")
                self.counted = count
            return None
        self.chain += words
        key = lambda m: (m["tick"], m["pc"], m["thread"], m["output"])  # noqa: E731
        chain = [key(m) for m in self.chain]
        inside = [key(m) for m in self.reference if self.since < m["tick"] < moment.tick]
        edges = {key(m) for m in self.reference if m["tick"] in (self.since, moment.tick)}
        if len(set(chain)) != len(chain):
            raise Wrong(f"said twice: {[k for k in chain if chain.count(k) > 1][0]}")
        if [k for k in chain if self.since < k[0] < moment.tick] != inside:
            got = [k for k in chain if self.since < k[0] < moment.tick]
            raise Wrong(f"from tick {self.since} to {moment.tick} it says {got[:5]} … ({len(got)}), from the beginning "
                        f"{inside[:5]} … ({len(inside)})")
        if any(k not in edges for k in chain if k[0] in (self.since, moment.tick)):
            raise Wrong(f"it says something else at the edges {self.since} and {moment.tick}: {chain[:2]} {chain[-2:]}")
        return None

    def check_state(self, moment):
        there = self.plain.goto(moment.at)
        if (there.event, there.thread) != (moment.event, moment.thread):
            return  # another side of a system call
        with_code, without = self.session.registers(), self.plain.registers()
        if with_code != without:
            raise Wrong(f"registers at {moment.at}: {with_code}, without debug code {without}")
        for address, size in [(without["rsp"], 512), (0, 0)]:
            if size and self.session.memory(address, size) != self.plain.memory(address, size):
                raise Wrong(f"memory at {address:#x} at {moment.at}")
        for name in ("counter", "text", "table", "sum"):
            if self.session.value(name) != self.plain.value(name):
                raise Wrong(f"{name} at {moment.at}: {self.session.value(name)}, without debug code {self.plain.value(name)}")


def walk_in_gdb(r, recording, folder):
    at = make(r, folder)
    commands = []
    for _ in range(12):
        commands += r.choice([
            [f"tbreak work if n == {r.randint(0, 40)}", "continue"], [f"tbreak work if n == {r.randint(0, 40)}", "reverse-continue"],
            ["tbreak handler", "continue"], [f"goto {r.randint(1, 99)}%"], [f"stepi {r.randint(1, 9)}"], [f"reverse-stepi {r.randint(1, 9)}"],
            ["next"], ["step"], ["reverse-next"], ["reverse-step"], ["finish"], ["reverse-finish"], ["watch -location text[5]", "continue", "delete"],
            ["watch -location text[5]", "reverse-continue", "delete"], ["goto start"], ["goto end"], ["continue"], ["call work(5)"]])
        commands += ['printf "at %lx, counter %d\\n", $pc, counter', "monitor checksum"]
    (folder / "commands").write_text("\n".join(commands) + "\n")

    def run(*options):
        done = subprocess.run([os.environ["BACKSTEP"], "replay", "-q", *options, recording, "-batch", "-nx", "-ex", "set pagination off",
                               "-ex", "set confirm off", "-x", str(folder / "commands.py")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, timeout=float(os.environ.get("PATIENCE", "600")))
        return done.stdout, [line for line in done.stdout.split("\n") if re.fullmatch("at [0-9a-f]+, counter -?[0-9]+|[0-9a-f]{8}", line)]

    # A command that fails does not end a batch of Python's.
    (folder / "commands.py").write_text(
        "import gdb\nfor c in open(%r).read().split('\\n'):\n  try:\n    if c: gdb.execute(c)\n  except gdb.error as e: print('gdb:', e)\n"
        % str(folder / "commands"))
    code = [o for place, _ in at.items() for o in ("--probe-at", f"{place} @{folder}/{place}.cc")]
    state = r.choice(["follow", "keep"])
    print(f"  gdb, {state}, at {', '.join(at)}", flush=True)
    log, with_code = run("--debug-state=" + state, *code)
    plain_log, without = run()
    (folder / "log").write_text(log)
    (folder / "plain-log").write_text(plain_log)
    if NEVER.search(log):
        raise Wrong(NEVER.search(log).group())
    if with_code != without or len(without) < 20:
        first = next((i for i, (a, b) in enumerate(zip(with_code, without)) if a != b), min(len(with_code), len(without)))
        raise Wrong(f"the run is another one from step {first // 2} on: {with_code[first:first + 2]}, without debug code {without[first:first + 2]}")


def main():
    seed, recording, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    r = random.Random("walk" + seed)
    walk = None
    try:
        if "--gdb" in sys.argv:
            walk_in_gdb(r, recording, folder)
        else:
            walk = Walk(r, recording, folder)
            walk.run(40)
    except (Wrong, backstep.Error) as e:
        print(f"seed {seed}: {e}", file=sys.stderr)
        if walk:
            print("after " + ", ".join(walk.path[-12:]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
