#!/usr/bin/env python3
"""Prints all values that a global variable ever had: values.py VARIABLE [RECORDING]"""
import sys

import backstep

with backstep.open(*sys.argv[2:3]) as session:
    session.goto("start")
    print("start", session.value(sys.argv[1]))
    for hit in session.log("change " + sys.argv[1], "$new"):
        print(hit.at, hit.values["$new"])
