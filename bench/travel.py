"""The debugger's figures: how long it takes to move in a long recording (`./run bench --travel`, `--long` for 60 s of
CPU time instead of 6). Talks to `backstep replay --serve` itself, so that no gdb is measured.

What is measured, in a recording of one CPU-bound program (bench/programs/long.c):
  a replay to the end without a debugger, a session's first way to the end without and with storing checkpoints,
  the second session's way to the end, random moments, steps back, the last write of a variable half a run ago whose page
  is quiet, and of one whose page is written to all the time, and that once more from near by; and how much slower
  a replay is that watches 1, 100 and 10,000 words which are never written to.
"""
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "cases"))
sys.dont_write_bytecode = True
from rsp import Session  # noqa: E402


class Server:
    def __init__(self, backstep, recording, *options):
        self.process = subprocess.Popen([backstep, "replay", "--serve", "0", *options, recording],
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.session = Session(int(re.search(r" at 127\.0\.0\.1:(\d+);", line)[1]))

    def __enter__(self):
        return self.session

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def seconds(work):
    start = time.time()
    work()
    return time.time() - start


def symbols(program):
    text = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {name: int(address, 16) for address, _, name in re.findall(r"^([0-9a-f]+) (\w) (\w+)$", text, re.M)}


def base_of(session, program):
    for line in session.monitor("maps").splitlines():
        if line.rstrip().endswith(os.path.basename(program)) and " 00000000 " in line:
            return int(line.split("-")[0], 16)
    raise RuntimeError("the program is not mapped")


def forward(session, address, words):
    """Seconds from the start to the end with these words watched; without any there is a breakpoint there, as data is never
    executed: with nothing to look for, nothing would be replayed."""
    session.goto("start")
    points = ["2,%x,8" % (address + 8 * i) for i in range(words)] or ["0,%x,1" % address]
    for point in points:
        assert session.ask("Z" + point) == "OK"
    took = seconds(lambda: session.ask("vCont;c"))
    for point in points:
        assert session.ask("z" + point) == "OK"
    return took


def measure(backstep, folder, long):
    """List of (name, seconds or ratio as text, target as text)."""
    program, recording = os.path.join(folder, "long"), os.path.join(folder, "travel")
    rounds = 10_000
    once = seconds(lambda: subprocess.run([program, str(rounds)], check=True, stdout=subprocess.DEVNULL))
    rounds = int(rounds * (60 if long else 6) / once)
    rows = []
    row = lambda name, value, target="": rows.append((name, value, target))
    show = lambda s: f"{s:.3f} s" if s < 10 else f"{s:.1f} s"
    native = seconds(lambda: subprocess.run([program, str(rounds)], check=True, stdout=subprocess.DEVNULL))
    row("the program natively", show(native))
    subprocess.run([backstep, "record", "-q", "-o", recording, program, str(rounds)], check=True,
                   stdout=subprocess.DEVNULL)
    plain = seconds(lambda: subprocess.run([backstep, "replay", "--autopilot", recording], check=True,
                                           stdout=subprocess.DEVNULL))
    row("replay --autopilot", show(plain))
    with Server(backstep, recording, "--checkpoints", "0") as s:
        without = seconds(lambda: s.goto("end"))
        base = base_of(s, program)
    row("first way to the end, nothing stored", show(without))
    with Server(backstep, recording) as s:
        first = seconds(lambda: s.goto("end"))
        time.sleep(1)
    row("first way to the end, storing checkpoints", f"{show(first)}, {100 * (first / without - 1):+.0f} %", "+15 %")
    names = symbols(program)
    with Server(backstep, recording) as s:
        row("the second session's way to the end", show(seconds(lambda: s.goto("end"))), "1 s")
        last = int(s.when()[1:].split(":")[0])
        random.seed(1)
        times = sorted(seconds(lambda: s.goto("@%d" % random.randrange(last))) for _ in range(40))
        row("a random moment, median of 40", show(times[20]), "0.5 s")
        row("… worst of 40", show(times[-1]), "2 s")
        s.goto("70%")
        s.ask("bs")
        times = sorted(seconds(lambda: s.ask("bs")) for _ in range(21))
        row("a step back, median of 21", show(times[10]), "0.05 s")
        for name, target in ("quiet", "5 s"), ("busy", ""):
            s.goto("end")
            watch = "Z2,%x,8" % (base + names[name])
            assert s.ask(watch) == "OK"
            took = seconds(lambda: s.ask("bc"))
            assert 49 < 100 * int(s.when()[1:].split(":")[0]) / last < 51, s.when()
            row(f"back to the last write, half the run ago, page {name}", show(took), target)
            s.goto("@%d" % (last * 51 // 100))
            row(f"… once more, from 1 % of the run behind it", show(seconds(lambda: s.ask("bc"))), "1 s")
            assert s.ask("z" + watch[1:]) == "OK"
    trace = lambda *options: subprocess.run([backstep, "trace", *options, recording], check=True, stdout=subprocess.DEVNULL)
    row("tables of contents, made on all processors", show(seconds(lambda: trace("--level", "1"))))
    with Server(backstep, recording) as s:
        s.goto("end")
        assert s.ask("Z2,%x,8" % (base + names["busy"])) == "OK"
        took = seconds(lambda: s.ask("bc"))
        assert 49 < 100 * int(s.when()[1:].split(":")[0]) / last < 51, s.when()
        row("with them: back to the last write, half the run ago, page busy", show(took), "3 s")
    trace("--level", "2")
    with Server(backstep, recording) as s:
        s.goto("end")
        assert s.ask("Z2,%x,8" % (base + names["busy"])) == "OK"
        row("with last stores (level 2): the same", show(seconds(lambda: s.ask("bc"))), "3 s")
    contents = os.path.join(recording, "contents")
    size = sum(os.path.getsize(os.path.join(contents, f)) for f in os.listdir(contents) if f.endswith(".contents"))
    row("tables of contents on disk, for a second of the run", f"{size / 1e3 / native:.1f} KB", "200 KB")
    trace("--remove")
    if not long:
        with Server(backstep, recording, "--checkpoints", "0") as s:
            forward(s, base + names["watched"], 0)
            none = forward(s, base + names["watched"], 0)
            row("forward to the end in a session", show(none))
            for words in 1, 100, 10_000:
                took = forward(s, base + names["watched"], words)
                row(f"… with {words} watched words that are not written to", f"{took / none:.2f}", "1.6")
    size = sum(os.path.getsize(os.path.join(recording, "checkpoints", f))
               for f in os.listdir(os.path.join(recording, "checkpoints")))
    row("checkpoints on disk", f"{size / 1e6:.0f} MB in {len(os.listdir(os.path.join(recording, 'checkpoints'))) - 1}",
        "512 MB")
    return rows


def show(rows, markdown):
    if markdown:
        print("| | measured | asked |\n|---|---:|---:|")
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    width = max(len(r[0]) for r in rows)
    for name, value, target in rows:
        print(f"{name.ljust(width)}  {value.rjust(16)}" + (f"   (asked: {target})" if target else ""))
