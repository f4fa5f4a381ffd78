"""Records a command many times and replays each recording: every replay must have the output of its recording, be exact
and complete, and count the same ticks. Says how many different outcomes the recordings had.

    many_recordings.py COUNT REPLAYS FOLDER [RECORD-OPTION]... -- COMMAND [ARG]...

SEED in an option becomes the number of the recording. Without shell tools in between, because it is a matter of
milliseconds each. The last recording stays in FOLDER; on failure that is the one that failed."""
import json
import os
import shutil
import subprocess
import sys

BACKSTEP = os.environ["BACKSTEP"]
LIMIT = int(os.environ["PATIENCE"])


def run(command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"FAILED: '{' '.join(command)}' did not end in {LIMIT} s")
    return done.returncode, done.stdout, done.stderr


def main():
    count, replays, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    split = sys.argv.index("--")
    options, command = sys.argv[4:split], sys.argv[split + 1:]
    outcomes = {}
    for i in range(1, count + 1):
        shutil.rmtree(folder, ignore_errors=True)
        these = [option.replace("SEED", str(i)) for option in options]
        recorded = run([BACKSTEP, "record", "-q"] + these + ["-o", folder, "--"] + command)
        outcomes[recorded] = outcomes.get(recorded, 0) + 1
        ticks = None
        for replay in range(1, replays + 1):
            status, out, err = run([BACKSTEP, "replay", "--autopilot", "--json", folder])
            what = f"recording {i} {' '.join(these)}, replay {replay}"
            if status != 0:
                sys.exit(f"FAILED: {what} ended with {status}: {err.decode(errors='replace')[-600:]}")
            at = err.rindex(b'{"complete"')
            report, err = json.loads(err[at:]), err[:at]
            if not report["exact"] or not report["complete"]:
                sys.exit(f"FAILED: {what}: {report}")
            if (out, err) != recorded[1:]:
                sys.exit(f"FAILED: {what} printed {out + err}, the recording {recorded[1] + recorded[2]}")
            if ticks not in (None, report["ticks"]):
                sys.exit(f"FAILED: {what} counted {report['ticks']} ticks, the one before {ticks}")
            ticks = report["ticks"]
    print(f"{len(outcomes)} outcomes in {count} recordings")
    for (status, out, err), times in sorted(outcomes.items(), key=lambda entry: -entry[1])[:5]:
        print(f"  {times} x status {status}: {(out + err).decode(errors='replace')[:200]!r}")


main()
