"""The figures of debug code (`./run bench --probe`): what a region costs each time, what one costs that is never reached,
what printing costs, and how long it takes to compile and load a file. Seconds of CPU of all processes, the
least of 3 runs, so that a busy machine matters little.
"""
import ctypes
import os
import struct
import subprocess

ROUNDS = 3
SYS_PERF_EVENT_OPEN = 298


def task_clock():
    """A descriptor that counts the CPU time of this process and of all that are started from now on. (Replaying processes are
    waited for by nobody, so rusage has nothing of them.)"""
    software, size, of_tasks, inherit = 1, 112, 1, 1 << 1
    attributes = struct.pack("<IIQQQQQ", software, size, of_tasks, 0, 0, 0, inherit).ljust(size, b"\0")
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_PERF_EVENT_OPEN, attributes, 0, -1, -1, 0)
    if fd < 0:
        raise SystemExit(f"bench: cannot count CPU time (perf_event_open: {os.strerror(ctypes.get_errno())}): be root, or lower "
                         "/proc/sys/kernel/perf_event_paranoid to 1")
    return fd


def cpu(command, cwd):
    """Seconds of the cheapest run, and what it printed."""
    clock = task_clock()
    seconds = lambda: struct.unpack("<Q", os.read(clock, 8))[0] / 1e9  # noqa: E731
    least, output = None, ""
    for _ in range(ROUNDS):
        before = seconds()
        run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd)
        took = seconds() - before
        if least is None or took < least:
            least, output = took, run.stdout
    os.close(clock)
    return least, output


def measure(backstep, folder, source):
    """List of (name, measured, asked for). `source`: of the program "probed" in the folder."""
    program, millions = os.path.join(folder, "probed"), 10
    recording, short = os.path.join(folder, "probed-recording"), os.path.join(folder, "probed-short")
    for name, hits in (recording, millions * 1_000_000), (short, 100_000):
        subprocess.run([backstep, "record", "-q", "-o", name, program, str(hits)], check=True, stdout=subprocess.DEVNULL)
    rows = []
    text = open(source).read()

    def probe(code, recording, marker="/* HERE */", *options):
        """With a region in front of the marked line."""
        with open(os.path.join(folder, "probed.c"), "w") as f:
            f.write('#include <backstep/debug.h>\n#ifdef BACKSTEP_PROBE\n#include <stdio.h>\n#endif\n'
                    + text.replace(marker, f"BACKSTEP_BEGIN {code} BACKSTEP_END " + marker))
        return cpu([backstep, "probe", *options, "probed.c", recording, "--", "-O2"], folder)

    replay, _ = cpu([backstep, "replay", "--autopilot", "-q", recording], folder)
    start, _ = cpu([backstep, "count", "tick 1", recording], folder)
    compiled, _ = probe("static long n; n += i + j;", short, "/* HERE */", "--compile")
    rows.append(("replay --autopilot of it", f"{replay:.2f} s", ""))
    never, _ = probe('printf("%ld\\n", total);', recording, "/* NEVER */")
    rows.append(("a region that is never reached: the run, beyond compiling and a plain replay",
                 f"{never - compiled - replay:+.2f} s", "0"))
    some, out = probe("static long n, sum; sum += i + j; if (++n == %d) printf(\"%%ld %%ld\\n\", n, sum);" % (millions * 1_000_000),
                      recording)
    assert out.startswith(f"{millions * 1_000_000} "), out
    rows.append((f"a region that reads two ints and counts, {millions} million times: each",
                 f"{(some - never) / millions * 1000:.0f} ns", "100 ns"))
    few, _ = probe('printf("%ld\\n", total);', short, "/* NEVER */")
    printing, out = probe('printf("%d %d\\n", i, j);', short)
    assert out.count("\n") == 100_000, out[-100:]
    rows.append(("a region with a printf, 100,000 times", f"{printing - few:.2f} s", "0.5 s"))
    rows.append(("compile a file and load it", f"{few - start:.2f} s", "1.5 s"))
    return rows
