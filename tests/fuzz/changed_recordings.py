"""Recordings as a stranger might make them: mutate_recording changes fields and makes the checksums anew, and then
everything that reads recordings is run. Nothing may crash, hang, or write outside of the recording.

changed_recordings.py FIRST COUNT RECORDING...: seeds, and good (packed) recordings to change copies of. BACKSTEP is the program,
MUTATE the tool, PATIENCE what counts as hanging (seconds).
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

BACKSTEP, MUTATE, PATIENCE = os.environ["BACKSTEP"], os.environ["MUTATE"], float(os.environ.get("PATIENCE", "600"))

SQL = "SELECT * FROM events; SELECT * FROM syscalls; SELECT * FROM processes; SELECT * FROM threads; SELECT * FROM signals; SELECT * FROM output;"
# What is done with each: the first are quick, and of the rest a few are chosen by the seed.
ALWAYS = [["replay", "--autopilot", "-q"], ["dump", "--all"], ["info"], ["ps"]]
SOMETIMES = [
    ["sql", SQL],
    ["replay", "--autopilot", "-q", "-p", "2"],
    ["dump", "--json"],
    ["info", "--json"],
    ["checkpoints"],
    ["checkpoints", "--verify"],
    ["trace"],
    ["count", "compute"],
    ["log", "compute", "{n}"],
    ["syscalls"],
    ["calls", "--tree", "compute"],
    ["races"],
    ["sql", "SELECT count(*), max(newval) FROM stores WHERE tick BETWEEN 0 AND 400000"],
    ["sql", "SELECT * FROM stores WHERE name = 'counted' LIMIT 5"],
    ["session"],
]
# As a debugger moves: to the end, back, by checkpoints and by what was stored.
SESSION = "".join(
    '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' % (i, method, params)
    for i, (method, params) in enumerate(
        [
            ("goto", '{"to":"end"}'),
            ("stack", "{}"),
            ("threads", "{}"),
            ("registers", "{}"),
            ("goto", '{"to":"50%"}'),
            ("locals", "{}"),
            ("query", '{"text":"goto last backward store 1 where addr=&counted"}'),
            ("why", '{"expression":"counted"}'),
            ("goto", '{"to":"start"}'),
            ("shutdown", "{}"),
        ]
    )
)
BAD = ("AddressSanitizer", "runtime error:", "this is a bug in backstep", "internal error", "a fault in Backstep itself", "terminate called", "Assertion")


def run(command, recording):
    """None, or what is wrong."""
    text = SESSION if command[0] == "session" else ""
    ended = subprocess.Popen(
        [BACKSTEP, *command, str(recording)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        out, err = ended.communicate(text.encode(), timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        ended.kill()
        return "hangs"
    said = (out[-100_000:] + err[-100_000:]).decode(errors="replace")
    for word in BAD:
        if word in said:
            return f"says: {said[max(0, said.index(word) - 300):][:1500]}"
    if ended.returncode < 0:
        return f"died of signal {-ended.returncode}: {err[-500:].decode(errors='replace')}"
    if ended.returncode == 3 and not err.strip() and command[0] == "replay":
        return "ends with 3 without a word"
    return None


def main():
    first, count, good = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    work = Path("changed").absolute()
    bad = 0
    for seed in range(first, first + count):
        chance = random.Random(seed)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(chance.choice(good), work, symlinks=True)
        what = subprocess.run([MUTATE, str(seed), str(work)], capture_output=True, text=True, check=True).stdout
        some = SOMETIMES if os.environ.get("ALL") else chance.sample(SOMETIMES, 2)
        for command in ALWAYS + some:
            wrong = run(command, work)
            if wrong:
                bad += 1
                print(f"seed {seed}: backstep {' '.join(command)} {wrong}\n  {what}", flush=True)
    sys.exit(bad != 0)


main()
