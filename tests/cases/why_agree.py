#!/usr/bin/env python3
"""What `why` says wrote a byte or a register last, against single steps.

    why_agree.py BACKSTEP REFERENCE SEED QUESTIONS RECORDING [--main]

The reference (tests/reference) steps through the recording and writes down each position with its registers and accesses. For
random moments, the last step that wrote to a byte of memory is the last one among those lines that says so; of a register it is
known where its value changed last: `why` must name that step or a later one, behind which the register has that value."""
import os
import random
import subprocess
import sys

program, reference, seed, questions, recording = sys.argv[1:6]
seed, questions = int(seed), int(questions)
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import backstep

NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
rng = random.Random(seed)


class Step:
    def __init__(self, line):
        f = line.split()
        self.tick, self.event, self.pc, self.thread, self.kind = int(f[0]), int(f[1]), int(f[2]), int(f[3]), f[4]
        self.registers = [int(v) for v in f[5:21]]
        self.writes, self.vague = [], self.kind != "i"
        for access in f[21].split(","):
            if access == "?":
                self.vague = True
            elif access[0] in "wb":
                address, size = access[1:].split(":")
                self.writes.append((int(address), int(size)))

    @property
    def at(self):
        return "@%d:0x%x" % (self.tick, self.pc)


def first_hop(answer):
    part = answer["value"]["parts"][0]
    return (part["copies"][0] if part["copies"] else part["origin"]), part


with backstep.open(recording) as session:
    start = "0"
    if "--main" in sys.argv:
        start = str(next(iter(session.log("call main"))).tick)
    lines = subprocess.run([reference, "--from", start, "--most", "4000", recording], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    steps = [Step(line) for line in lines[:-1]]
    # A moment must be one: the control point of several steps is that of the first.
    seen, unique = set(), []
    for i, s in enumerate(steps):
        if (s.tick, s.pc) not in seen and s.kind == "i":
            unique.append(i)
        seen.add((s.tick, s.pc))
    asked = compared = 0
    while compared < questions and asked < 20 * questions:
        asked += 1
        now = rng.choice(unique[len(unique) // 4:])
        if rng.random() < 0.5:
            written = [(a, n, i) for i in range(max(0, now - 400), now) for a, n in steps[i].writes]
            if not written:
                continue
            address, size, _ = rng.choice(written)
            address += rng.randrange(size)
            last = next(i for i in range(now - 1, -1, -1)
                        if steps[i].vague or any(a <= address < a + n for a, n in steps[i].writes))
            # What the kernel writes, and how far a repeated instruction came, the reference does not say.
            if steps[last].vague:
                continue
            hop, _ = first_hop(session.why("0x%x:1" % address, at=steps[now].at, depth=0, copies=True))
            assert hop["at"] == steps[last].at, ("memory", hex(address), steps[now].at, hop, steps[last].at)
        else:
            register = rng.randrange(16)
            if NAMES[register] == "rsp":
                continue
            thread = steps[now].thread
            mine = [i for i in range(now + 1) if steps[i].thread == thread]
            changed = next((k for k in range(len(mine) - 1, 0, -1)
                            if steps[mine[k]].registers[register] != steps[mine[k - 1]].registers[register]), None)
            if changed is None:
                continue
            writer = steps[mine[changed - 1]]
            hop, part = first_hop(session.why("$" + NAMES[register], at=steps[now].at, depth=0, copies=True))
            place = [k for k in range(len(mine) - 1) if steps[mine[k]].at == hop["at"]]
            assert place, ("register", NAMES[register], steps[now].at, hop)
            # A write of the same value leaves no trace in the reference; but none before the last change can be right.
            parts = session.why("$" + NAMES[register], at=steps[now].at, depth=0, copies=True)["value"]["parts"]
            firsts = [(p["copies"][0] if p["copies"] else p["origin"])["at"] for p in parts]
            latest = max(max((k for k in range(len(mine) - 1) if steps[mine[k]].at == at), default=-1) for at in firsts)
            assert latest >= changed - 1, ("register", NAMES[register], steps[now].at, firsts, writer.at)
        compared += 1
    assert compared >= questions // 2, (compared, asked)
    print("%s: %d of %d questions compared, all the same" % (recording, compared, asked))
