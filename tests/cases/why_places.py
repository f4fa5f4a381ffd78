#!/usr/bin/env python3
"""Who wrote a register last, by `why`: found by steps, and found by the places of executed code that write it.

    why_places.py BACKSTEP SEED QUESTIONS RECORDING

Asked at random moments; the answers must be the same but for what they have cost."""
import os
import random
import sys

program, seed, questions, recording = sys.argv[1:5]
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import backstep

NAMES = "rax rcx rdx rbx rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
rng = random.Random(int(seed))


def answers(asked, steps):
    os.environ["BACKSTEP_STEPS"] = steps
    with backstep.open(recording) as session:
        moments = asked or [(hit.tick, hit.pc, rng.choice(NAMES)) for hit in
                            rng.sample(list(session.log("every 97", limit=3000)), int(questions))]
        told = []
        for tick, pc, name in moments:
            answer = session.why("$" + name, at="@%d:0x%x" % (tick, pc), depth=0, copies=True)
            # A chain of copies is cut where it is long; the first hops are what this is about.
            told.append([(p["offset"], p["size"], p["copies"][:3], p["origin"]["kind"], p["origin"].get("at"))
                         for p in answer["value"]["parts"]])
        return moments, told


asked, by_steps = answers(None, "1000000000")
_, by_places = answers(asked, "0")
for moment, a, b in zip(asked, by_steps, by_places):
    assert a == b, (moment, a, b)
print("%s: %d questions, all the same" % (recording, len(asked)))
