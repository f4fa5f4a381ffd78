"""What tables of contents cost (`./run bench --trace`): making those of a whole recording that has checkpoints, on one processor, against
a plain replay (`replay --autopilot`) there; whole commands with their start, best of several, alternating.
"""
import math
import os
import shutil
import subprocess
import time


def timed(command):
    start = time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                   preexec_fn=lambda: os.sched_setaffinity(0, {0}))
    return time.time() - start


def measure(workloads, backstep, folder, rounds):
    """List of (name, seconds of replay, ratio, bytes of tables for a second of the run)."""
    rows = []
    recording = os.path.join(folder, "traced")
    for w in workloads:
        shutil.rmtree(recording, ignore_errors=True)
        with open(w.stdin or "/dev/null", "rb") as standard_input:
            start = time.time()
            subprocess.run(w.native, check=True, stdin=standard_input, stdout=subprocess.DEVNULL)
            native = time.time() - start
            standard_input.seek(0)
            subprocess.run([backstep, "record", "-q", "-o", recording, "--", *w.command], check=True,
                           stdin=standard_input, stdout=subprocess.DEVNULL)
        subprocess.run([backstep, "checkpoints", "--make", recording], check=True, stdout=subprocess.DEVNULL)
        plain = traced = math.inf
        for _ in range(rounds):
            plain = min(plain, timed([backstep, "replay", "--autopilot", "-q", "-p", "#1", recording]))
            subprocess.run([backstep, "trace", "--remove", recording], check=True, stdout=subprocess.DEVNULL)
            traced = min(traced, timed([backstep, "trace", "--level", "1", recording]))
        contents = os.path.join(recording, "contents")
        size = sum(os.path.getsize(os.path.join(contents, f)) for f in os.listdir(contents))
        rows.append((w.name, plain, traced / plain, size / native))
    return rows


def show(rows, markdown):
    mean = math.exp(sum(math.log(r[2]) for r in rows) / len(rows)) if rows else 0
    lines = [(name, f"{plain:.2f}", f"{ratio:.2f}", f"{size / 1e3:.1f}") for name, plain, ratio, size in rows]
    lines.append((f"geometric mean of {len(rows)} (asked: 1.3, 200 KB)", "", f"{mean:.2f}", ""))
    heads = ("workload", "replay s", "tables of contents", "KB for a second of the run")
    if markdown:
        print("| " + " | ".join(heads) + " |\n|---|---:|---:|---:|")
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    width = max(len(l[0]) for l in lines)
    print("  ".join([heads[0].ljust(width), *heads[1:]]))
    for line in lines:
        print("  ".join([line[0].ljust(width), *(c.rjust(len(h)) for c, h in zip(line[1:], heads[1:]))]))
