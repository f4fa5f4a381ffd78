#!/usr/bin/env python3
"""Finds where an invariant was broken first: invariant.py PLACE CONDITION [RECORDING]

PLACE is where the condition is to hold, such as list.c:42. Goes to the first time that it does not and shows the stack."""
import sys

import backstep

place, condition = sys.argv[1:3]
with backstep.open(*sys.argv[3:4]) as session:
    times = session.count(place)
    broken = next(iter(session.log(f"{place} if !({condition})", limit=1)), None)
    if broken is None:
        print(f"{condition} holds all {times} times")
        sys.exit(0)
    good = session.count(place, end=broken.at)
    print(f"{condition} holds {good} times, and not at {broken.at}:")
    session.goto(broken.at)
    for frame in session.stack():
        print(f"  {frame.function or hex(frame.pc)} ({frame.file}:{frame.line})")
    sys.exit(1)
