"""What tables of contents cost (`./run bench --trace`): making those of a whole recording that has checkpoints, on one processor, against
a plain replay (`replay --autopilot`) there; whole commands with their start, best of several, alternating. And what it costs that
translated code reports all stores, or all loads and stores, into memory (session/accesses.h, by a tool of the tests): of a thread that
there is not, so that nothing is done with them; and that all stores are looked through for one word, which nobody writes. Last, what it takes
to keep all stores (level 3, once there is level 1), in times of the native run, and how much room.
"""
import json
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


def folder_size(recording):
    contents = os.path.join(recording, "contents")
    return sum(os.path.getsize(os.path.join(contents, f)) for f in os.listdir(contents))


def measure(workloads, backstep, folder, rounds):
    """List of (name, seconds of replay, ratio, bytes of tables for a second of the run, ratios of stores, of both, and of stores that are
    looked through, level 3 against the native run, stores in it, bytes of it)."""
    tool = [os.path.join(os.path.dirname(backstep), "accesses"), "--count", "--stores"]
    reports = [*tool, "--thread", "1000000"]
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
        plain = traced = stores = both = looked = kept = math.inf
        for _ in range(rounds):
            plain = min(plain, timed([backstep, "replay", "--autopilot", "-q", "-p", "#1", recording]))
            subprocess.run([backstep, "trace", "--remove", recording], check=True, stdout=subprocess.DEVNULL)
            traced = min(traced, timed([backstep, "trace", "--level", "1", recording]))
            stores = min(stores, timed([*reports, recording]))
            both = min(both, timed([*reports, "--loads", recording]))
            looked = min(looked, timed([*tool, "--data", "0x1000:0x1008", recording]))
            # Behind the others, which would have nothing to replay any more.
            size = folder_size(recording)
            kept = min(kept, timed([backstep, "trace", "--level", "3", "--budget", "1TB", recording]))
        windows = json.loads(subprocess.run([backstep, "trace", "--json", recording], check=True, stdout=subprocess.PIPE).stdout)
        rows.append((w.name, plain, traced / plain, size / native, stores / plain, both / plain, looked / plain, kept / native,
                     sum(row.get("stores", 0) for row in windows), folder_size(recording) - size))
    return rows


def show(rows, markdown):
    mean = lambda column: math.exp(sum(math.log(r[column]) for r in rows) / len(rows)) if rows else 0
    lines = [(name, f"{plain:.2f}", f"{ratio:.2f}", f"{size / 1e3:.1f}", f"{stores:.2f}", f"{both:.2f}", f"{looked:.2f}", f"{kept:.1f}",
              f"{count / 1e6:.0f}", f"{room / max(count, 1):.2f}")
             for name, plain, ratio, size, stores, both, looked, kept, count, room in rows]
    lines.append((f"geometric mean of {len(rows)} (asked: 1.3, 200 KB, 2.5, 3.5; level 3: 10, 2 bytes)", "", f"{mean(2):.2f}", "", f"{mean(4):.2f}", f"{mean(5):.2f}",
                  f"{mean(6):.2f}", f"{mean(7):.1f}", "", ""))
    heads = ("workload", "replay s", "tables of contents", "KB for a second of the run", "stores reported", "with loads", "stores looked through", "level 3 kept, times native",
             "million stores", "bytes for a store")
    if markdown:
        print("| " + " | ".join(heads) + " |\n|---" + "|---:" * (len(heads) - 1) + "|")
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    width = max(len(l[0]) for l in lines)
    print("  ".join([heads[0].ljust(width), *heads[1:]]))
    for line in lines:
        print("  ".join([line[0].ljust(width), *(c.rjust(len(h)) for c, h in zip(line[1:], heads[1:]))]))
