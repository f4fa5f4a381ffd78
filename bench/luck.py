"""Speed that depends on luck (`./run bench --luck`): the same program with environments of 0 to 4096 bytes.

The size of the environment moves the initial stack, and with it all that a CPU makes of addresses: sets and ways of its
first-level cache, store forwarding, and on AMD the way predictor that src/engine/layout.h tells of. Nobody should have to
know; so what is measured is how much slower the unluckiest environment is than the luckiest, recorded and natively
(without address randomisation, which would make each native run another throw of the dice).

CPU time, since the clock also tells what else the machine does. A run that is disturbed is only ever slower: so each size
is run once, and those above the best are run again until they are not, or until it is clear that they stay there. What
is left is what the size makes.
"""
import os
import shutil
import statistics
import subprocess

WORKLOADS = ("fib(40)", "perl loop", "python loop", "sqlite")
STEP, MOST = 32, 4096
TRIES = 6
NEAR = 1.10  # a run this close to the best needs no other
TARGET = 1.15


def environment(size):
    """A variable of so many bytes, as the kernel counts them, beside the one that recording needs."""
    needed = {"BACKSTEP_DIR": os.environ["BACKSTEP_DIR"]}
    return dict(needed, X="a" * (size - 3)) if size else needed


def cpu_seconds(command, stdin, size, folder):
    report = os.path.join(folder, "report")
    with open(stdin or "/dev/null", "rb") as standard_input:
        subprocess.run([os.path.join(folder, "measure"), report] + command, stdin=standard_input, check=True,
                       stdout=subprocess.DEVNULL, env=environment(size))
    with open(report) as f:
        return float(f.read().split()[3])


def scan(run, sizes):
    """{size: CPU seconds at its best}"""
    best = {size: run(size) for size in sizes}
    for _ in range(TRIES - 1):
        limit = NEAR * min(best.values())
        again = [size for size in sizes if best[size] > limit]
        if not again:
            break
        for size in again:
            best[size] = min(best[size], run(size))
    return best


def fixed_addresses():
    setarch = ["setarch", "-R"]
    try:
        works = subprocess.run(setarch + ["true"], capture_output=True).returncode == 0
    except OSError:
        works = False
    return setarch if works else []


def measure(workloads, backstep, folder, quick):
    """A row for each of the workloads: (name, {"native": {size: seconds}, "record": …})"""
    sizes = range(0, MOST + 1, STEP * (4 if quick else 1))
    recording = os.path.join(folder, "recording")
    ways = {"native": fixed_addresses(), "record": [backstep, "record", "-q", "--no-cache", "-o", recording, "--"]}

    def run(prefix, w, size):
        shutil.rmtree(recording, ignore_errors=True)
        return cpu_seconds(prefix + w.command, w.stdin, size, folder)

    rows = []
    for w in workloads:
        if w.missing:
            continue
        rows.append((w.name, {how: scan(lambda size: run(prefix, w, size), sizes) for how, prefix in ways.items()}))
    return rows


def show(rows, markdown):
    header = ["workload", "native CPU s", "native worst/best", "record", "record worst/best", "slow sizes", "slowest at"]
    table = [header]
    for name, times in rows:
        native, record = times["native"], times["record"]
        best = min(record.values())
        slow = [size for size, t in record.items() if t > TARGET * best]
        table.append([name, f"{min(native.values()):.3f}", f"{max(native.values()) / min(native.values()):.2f}",
                      f"{statistics.median(record.values()) / statistics.median(native.values()):.2f}",
                      f"{max(record.values()) / best:.2f}", f"{len(slow)} of {len(record)}",
                      str(max(record, key=record.get))])
    if markdown:
        table.insert(1, ["---"] + ["---:"] * (len(header) - 1))
        print("\n".join("| " + " | ".join(row) + " |" for row in table))
    else:
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        for row in table:
            print("  ".join(t.ljust(w) if i == 0 else t.rjust(w) for i, (t, w) in enumerate(zip(row, widths))).rstrip())
        print()
    for name, times in rows:
        native, record = (max(times[how].values()) / min(times[how].values()) for how in ("native", "record"))
        if not markdown:
            word = "met" if record <= max(TARGET, native) else "MISSED"
            print(f"target {word}: {name}: worst/best {record:.2f}, at most {max(TARGET, native):.2f}")
