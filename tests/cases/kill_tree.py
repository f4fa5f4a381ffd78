"""Records a command and kills processes of its tree (cases/tree_killed.sh).

    kill_tree.py SEED RECORDING BACKSTEP COMMAND...

A random time (at most LONGEST seconds, 0.5) after the recording has begun one random process gets SIGKILL, a moment later
another one, and then all that are left. Everything runs in a session of its own: only what was started here is killed.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time


def main():
    seed, recording, backstep, *command = sys.argv[1:]
    choose = random.Random(int(seed))
    recorder = subprocess.Popen([backstep, "record", "-q", "-o", recording, "--"] + command, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def alive():
        """Processes of the session, zombies left out."""
        pids = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat") as f:
                    state, _, _, session = f.read().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if session == str(recorder.pid) and state != "Z":
                pids.append(int(entry))
        return sorted(pids)

    def kill(pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    while not os.path.exists(os.path.join(recording, "process-1.log")) and recorder.poll() is None:
        time.sleep(0.001)
    time.sleep(choose.uniform(0, float(os.environ.get("LONGEST", "0.5"))))
    for _ in range(2):
        pids = alive()
        if pids:
            kill([choose.choice(pids)])
        time.sleep(choose.uniform(0, 0.05))
    while pids := alive():
        kill(choose.sample(pids, len(pids)))
        time.sleep(0.01)
    recorder.wait()


main()
