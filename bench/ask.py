"""The figures of questions (`./run bench --ask`): what counting, logging, profiling and coverage cost, as ratios to a plain
replay (`replay --autopilot`) of the same recording, best of 3, the whole command with its start; and what two processors
bring in a recording with checkpoints.
"""
import os
import re
import subprocess
import time

ROUNDS = 3


def best(command, cpus=None):
    """Seconds of the fastest run, and what it printed."""
    fastest, output = None, ""
    for _ in range(ROUNDS):
        start = time.time()
        limit = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        run = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=limit)
        took = time.time() - start
        if fastest is None or took < fastest:
            fastest, output = took, run.stdout
    return fastest, output


def measure(backstep, folder):
    """List of (name, measured, asked for)."""
    program, recording = os.path.join(folder, "asked"), os.path.join(folder, "asked-recording")
    millions = 100
    subprocess.run([backstep, "record", "-q", "-o", recording, program, str(millions)], check=True,
                   stdout=subprocess.DEVNULL)
    rows = []
    plain, _ = best([backstep, "replay", "--autopilot", "-q", "-p", "1", recording])
    rows.append(("replay --autopilot", f"{plain:.2f} s", ""))
    session, _ = best([backstep, "count", "tick 1", recording])

    def ratio(name, command, asked, check=None):
        took, output = best([backstep, *command, recording])
        if check:
            assert check in output, output
        rows.append((name, f"{took / plain:.2f}", asked))

    rows.append(("… a question that is answered at the start of the run", f"{session:.2f} s", ""))
    ratio(f"counting a function that is called {millions} million times", ["count", "call step"], "1.3", "100,000,000")
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    functions = re.findall(r" t (f\d+)$", symbols, re.M)
    ratio(f"counting {len(functions)} functions at once", ["count", *("call " + f for f in functions)], "1.5")
    ratio("counting it with a condition that never holds", ["count", "call step if $arg0 == 1000"], "")
    ratio("profile, a sample every 100,000 ticks", ["profile", "--period", "100000"], "1.1")
    ratio("coverage", ["coverage"], "1.3")
    took, output = best([backstep, "log", "call step if $arg0 == 3", "{$arg0} {$arg1}", recording])
    rows.append((f"logging {output.count(chr(10)):,} hits with two integers, of {millions} times as many", f"{took:.2f} s", ""))
    few = os.path.join(folder, "asked-few")
    subprocess.run([backstep, "record", "-q", "-o", few, program, "1"], check=True, stdout=subprocess.DEVNULL)
    took, output = best([backstep, "log", "call step", "{$arg0} {$arg1}", few])
    rows.append((f"logging {output.count(chr(10)):,} hits with two integers", f"{took:.2f} s", "2 s"))

    # A checkpoint every half second: a run must be long enough for several windows a processor.
    long = os.path.join(folder, "asked-long")
    subprocess.run([backstep, "record", "-q", "-o", long, program, str(30 * millions)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([backstep, "checkpoints", "--make", long], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    question = [backstep, "count", "call step if $arg0 == 10000", long]
    one, _ = best(question, {min(os.sched_getaffinity(0))})
    every, _ = best(question)
    rows.append((f"{len(os.sched_getaffinity(0))} processors instead of one, with checkpoints", f"{one / every:.2f} times as fast", "1.7"))
    return rows
