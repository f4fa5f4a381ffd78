#!/usr/bin/env python3
"""Compares how often functions were called in two recordings: compare.py RECORDING RECORDING FUNCTION..."""
import sys

import backstep

first, second, *functions = sys.argv[1:]


def counts(recording):
    with backstep.open(recording) as session:
        return dict(zip(functions, [session.count("call " + f) for f in functions]))


a, b = counts(first), counts(second)
for function in functions:
    sign = "" if a[function] == b[function] else "  <--"
    print(f"{a[function]:>10} {b[function]:>10}  {function}{sign}")
