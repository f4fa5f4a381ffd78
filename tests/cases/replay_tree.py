"""Replays every process of a recording, several times (lib.bash: replay_tree).

    replay_tree.py BACKSTEP RECORDING TIMES [--output FILE] [--incomplete]

The first time all at once: together they must write to stdout what FILE holds, byte for byte. Then each by itself, with the
same output every time. Each replay must be exact and complete, with the ticks and events that `ps` shows. --incomplete: logs
without an end are replayed up to it, with a word about that.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

PATIENCE = int(os.environ["PATIENCE"])
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

    by_number = {p["number"]: p for p in processes}
    r = subprocess.run([backstep, "replay", "--autopilot", "--json", *options, recording], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
    words = r.stderr.decode(errors="replace")
    if r.returncode and not (r.returncode == 3 and incomplete and NOTHING.search(words)):
        sys.exit(f"the replay of all ended with {r.returncode}\n{words[-2000:]}")
    if not r.returncode:
        report = json.loads(words[words.rindex('{"complete"'):])
        if [p["process"] for p in report["processes"]] != sorted(by_number):
            sys.exit(f"the replay of all is one of {report}")
        for p in report["processes"]:
            known = by_number[p["process"]]
            if not p["exact"]:
                sys.exit(f"the replay of all: {p}")
            if not p["complete"] and not (incomplete and known["end"] is None and p["incomplete"]):
                sys.exit(f"the replay of all was not complete: {p}")
            if p["complete"] and (p["ticks"], p["events"]) != (known["ticks"], known["events"]):
                sys.exit(f"the replay of all: {p}, but ps says {known}")
        if expected:
            with open(expected, "rb") as f:
                recorded = f.read()
            if recorded != r.stdout:
                sys.exit(f"all together write\n{r.stdout[-2000:]}\nbut what was recorded is\n{recorded[-2000:]}")

    def replay(p):
        what = f"process {p['number']} (pid {p['pid']}, {p['born']}, {' '.join(p['argv'])[:60]})"
        outputs = set()
        for i in range(max(1, int(times) - 1)):
            r = subprocess.run([backstep, "replay", "--autopilot", "--json", "-p", f"#{p['number']}", *options, recording],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
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

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for what, out, error in pool.map(replay, processes):
            if error:
                pool.shutdown(cancel_futures=True)
                sys.exit(error)
    print(len(processes))


main()
