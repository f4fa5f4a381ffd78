"""Replays every process of a recording, several times (lib.bash: replay_tree).

    replay_tree.py BACKSTEP RECORDING TIMES [--output FILE] [--incomplete]

Each replay must be exact and complete, with the ticks and events that `ps` shows, and the same output every time. What
all processes together write to stdout must be the lines of FILE, in any order. --incomplete: logs without an end are
replayed up to it, with a word about that.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

NOTHING = re.compile("the recorder ended before the program started|is empty: nothing was recorded")


def main():
    backstep, recording, times, *rest = sys.argv[1:]
    expected = rest[rest.index("--output") + 1] if "--output" in rest else None
    incomplete = "--incomplete" in rest
    options = os.environ.get("REPLAY_OPTIONS", "").split()
    listing = subprocess.run([backstep, "ps", "--json", recording], stdout=subprocess.PIPE)
    if listing.returncode:
        sys.exit(f"ps ended with {listing.returncode}")
    processes = json.loads(listing.stdout)

    def replay(p):
        what = f"process {p['number']} (pid {p['pid']}, {p['born']}, {' '.join(p['argv'])[:60]})"
        outputs = set()
        for i in range(int(times)):
            r = subprocess.run([backstep, "replay", "--autopilot", "--json", "-p", f"#{p['number']}", *options, recording],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
            words = r.stderr.decode(errors="replace")
            # Killed before there was anything to replay: said so, with status 3.
            if r.returncode == 3 and incomplete and p["end"] is None and NOTHING.search(words):
                outputs.add(b"")
                continue
            if r.returncode:
                return what, None, f"{what}: replay {i + 1} ended with {r.returncode}\n{words[-1000:]}"
            report = json.loads(words[words.rindex('{"complete"'):])
            if not report["exact"]:
                return what, None, f"{what}: replay {i + 1} was not exact: {report}"
            if not report["complete"] and not (incomplete and p["end"] is None and report["incomplete"]):
                return what, None, f"{what}: replay {i + 1} was not complete: {report}"
            if report["complete"] and (report["ticks"], report["events"]) != (p["ticks"], p["events"]):
                return what, None, f"{what}: replay {i + 1}: {report}, but ps says {p['ticks']} ticks, {p['events']} events"
            outputs.add(r.stdout)
        if len(outputs) > 1:
            return what, None, f"{what}: the replays have different output"
        return what, outputs.pop(), None

    output = b""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for what, out, error in pool.map(replay, processes):
            if error:
                pool.shutdown(cancel_futures=True)
                sys.exit(error)
            output += out if not out or out.endswith(b"\n") else out + b"\n"
    if expected:
        with open(expected, "rb") as f:
            recorded = f.read()
        missing = sorted(recorded.splitlines()), sorted(output.splitlines())
        if missing[0] != missing[1]:
            sys.exit(f"the processes together write\n{missing[1]}\nbut what was recorded is\n{missing[0]}")
    print(len(processes))


main()
