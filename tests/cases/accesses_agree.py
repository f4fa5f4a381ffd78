#!/usr/bin/env python3
"""Loads and stores as translated code reports them, and as single steps show them: they must be the same.

  accesses_agree.py ACCESSES STEPS RECORDING [--from TICK] [--process N]

STEPS: what `reference --values` has printed of the recording, from that tick to the end. Prints how many there were, and how
many of the kernel's."""
import argparse
import random
import subprocess
import sys

MAPPING = {9, 10, 11, 12, 25, 28, 30, 67}  # calls that change memory without writing to it: mmap, munmap, shmat …


class Row:
    def __init__(self, line):
        f = line.split()
        self.tick, self.event, self.pc, self.thread = map(int, f[:4])
        self.kind, self.rax = f[4], int(f[5])
        self.vague = False
        self.accesses = []
        for a in f[21].split(",") if f[21] != "-" else []:
            if a == "?":
                self.vague = True
                continue
            place, values = a[1:].split("=")
            address, size = map(int, place.split(":"))
            old, _, new = values.partition(">")
            self.accesses.append((a[0], address, size, int(old), int(new or old)))


def read_steps(path):
    """What single steps say: accesses, places of which they know not all, events that map memory."""
    lines = open(path).read().splitlines()
    ending = lines.pop()
    rows = [Row(line) for line in lines]
    expected, vague, mapping, where = [], set(), [], set()
    for row, after in zip(rows, rows[1:] + [None]):
        if row.kind == "s" and row.rax in MAPPING:
            mapping.append(row.event)
        if row.kind == "i" and row.vague:
            vague.add((row.tick, row.event, row.pc))
            continue
        # An instruction that ends with an event has met a fault, or something from outside: it touched nothing.
        if row.kind != "i" or (after and after.event != row.event):
            continue
        for kind, address, size, old, new in row.accesses:
            expected.append((row.tick, row.event, row.pc, row.thread, kind, address, size, old, new))
            where.add(row.pc)
    return expected, vague, mapping, (rows[-1].tick if ending != "end" else None)


def ask(tool, recording, options, **environment):
    import os
    out = subprocess.run([tool, *options, recording], check=True, capture_output=True, text=True,
                         env={**os.environ, **environment}).stdout.splitlines()
    assert out.pop() == "end"
    result = []
    for line in out:
        tick, event, pc, thread, kind, place, old, new = line.split()
        address, size = place.split(":")
        result.append((int(tick), int(event), int(pc), int(thread), kind, int(address), int(size), int(old), int(new)))
    return result


def show(a):
    return "@{}:{:#x} event {} thread {} {} {:#x}:{} {:#x} > {:#x}".format(a[0], a[2], a[1], a[3], a[4], *a[5:])


def compare(what, said, expected):
    if said == expected:
        return
    for i, (a, b) in enumerate(zip(said, expected)):
        if a != b:
            sys.exit(f"{what}: number {i} of {len(said)} is\n  {show(a)}\nand not, of {len(expected)},\n  {show(b)}")
    sys.exit(f"{what}: {len(said)} instead of {len(expected)}; the next is {show((said + expected)[min(len(said), len(expected))])}"
             if len(said) < len(expected) else f"{what}: too many, {show(said[len(expected)])}")


def check_contents(accesses, mapping):
    """Each access finds what the one before has left: so nothing is missing, of what the kernel writes either."""
    memory, at = {}, 0
    for a in accesses:
        if at < len(mapping) and a[1] > mapping[at]:
            memory.clear()
            while at < len(mapping) and a[1] > mapping[at]:
                at += 1
        address, size, old, new = a[5:]
        for i in range(min(size, 8)):
            byte = old >> 8 * i & 255
            known = memory.get(address + i)
            if known is not None and known != byte:
                sys.exit(f"{show(a)}: byte {i} was {known:#x} before")
            memory[address + i] = new >> 8 * i & 255
        if a[4] != "r":
            if size > 4096:
                memory = {b: v for b, v in memory.items() if not address + 8 <= b < address + size}
            else:
                for i in range(8, size):
                    memory.pop(address + i, None)


def main():
    parser = argparse.ArgumentParser()
    for name in "accesses", "steps", "recording":
        parser.add_argument(name)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--process", type=int, default=1)
    parser.add_argument("--windows", default="")
    arguments = parser.parse_args()
    rng = random.Random(1)
    expected, vague, mapping, end = read_steps(arguments.steps)
    stretch = ["-p", str(arguments.process)]
    if arguments.start:
        stretch += ["--from", str(arguments.start)]
    if end:
        stretch += ["--to", str(end)]
        expected = [e for e in expected if e[0] < end]
    own = lambda said: [a for a in said if a[4] != "k" and a[:3] not in vague]
    everything = ask(arguments.accesses, arguments.recording, stretch + ["--stores", "--loads"])
    compare("all", own(everything), expected)
    check_contents(everything, mapping)
    for window in arguments.windows.split():
        again = ask(arguments.accesses, arguments.recording, stretch + ["--stores", "--loads"], BACKSTEP_WINDOW=window)
        compare(f"in windows of {window} ticks", again, everything)
    for leg in "1e-4", "1e-3":
        again = ask(arguments.accesses, arguments.recording, stretch + ["--stores", "--loads"], BACKSTEP_LEG=leg)
        compare(f"in legs of {leg} seconds", again, everything)
    for engine in "--memory", "--small", "--short":
        again = ask(arguments.accesses, arguments.recording, stretch + ["--stores", "--loads", engine])
        compare(f"with {engine}", again, everything)
    compare("stores", ask(arguments.accesses, arguments.recording, stretch + ["--stores"]),
            [a for a in everything if a[4] != "r"])
    compare("loads", ask(arguments.accesses, arguments.recording, stretch + ["--loads"]),
            [a for a in everything if a[4] == "r"])
    for _ in range(3):
        some = rng.choice(everything)
        data, code = (some[5] & ~63, (some[5] & ~63) + 64), (some[2] & ~127, (some[2] & ~127) + 128)
        meets = lambda a: a[5] < data[1] and a[5] + a[6] > data[0]
        inside = lambda a: code[0] <= a[2] < code[1]
        ranges = ["--data", "{}:{}".format(*data)], ["--code", "{}:{}".format(*code)]
        both = stretch + ["--stores", "--loads"]
        compare("of some memory", ask(arguments.accesses, arguments.recording, both + ranges[0]), [a for a in everything if meets(a)])
        compare("of some code", ask(arguments.accesses, arguments.recording, both + ranges[1]), [a for a in everything if inside(a)])
        compare("of both", ask(arguments.accesses, arguments.recording, both + ranges[0] + ranges[1]),
                [a for a in everything if meets(a) and inside(a)])
        compare("of a thread", ask(arguments.accesses, arguments.recording, both + ["--thread", str(some[3])]),
                [a for a in everything if a[3] == some[3]])
    print(len(everything), sum(a[4] == "k" for a in everything), len(vague))


main()
