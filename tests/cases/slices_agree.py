"""What is found of random memory of one recording when windows are looked through in slices must be what is found when all of their
stores are checked: slices_agree.py RECORDING. Back from random moments to the last changes, counts of all stores, and the last ones."""
import os
import random
import re
import subprocess
import sys

import rsp

SLICE = "1500"  # ticks


def environment(ticks):
    return dict(os.environ, BACKSTEP_SLICE=ticks)


class Server:
    def __init__(self, recording, ticks):
        self.process = subprocess.Popen([os.environ["BACKSTEP"], "replay", "--serve", "0", recording], text=True,
                                        env=environment(ticks), stderr=subprocess.PIPE)
        self.session = rsp.Session(int(re.search(r":(\d+);", self.process.stderr.readline())[1]))

    def end(self):
        self.process.kill()
        self.process.wait()


def changes(recording, questions, ticks, limit=4):
    server = Server(recording, ticks)
    s, found = server.session, []
    for moment, address, length in questions:
        s.goto(moment)
        s.ask("Z2,%x,%x" % (address, length))
        for _ in range(limit):
            reply = s.ask("bc")
            found.append((moment, hex(address), length, reply.split(";")[0], s.when(), s.monitor("checksum").strip()))
            if "replaylog" in reply:
                break
        s.ask("z2,%x,%x" % (address, length))
    server.end()
    return found


def stores(recording, address, length, ticks):
    memory = "%#x size %d" % (address, length)
    answers = []
    for question in (["count", "write " + memory, "change " + memory, "write %s if $thread == 2" % memory],
                     ["query", "goto last backward store 2 where addr=%#x" % address, "--print", "newval"]):
        done = subprocess.run([os.environ["BACKSTEP"], *question, recording], env=environment(ticks),
                              capture_output=True, text=True, timeout=int(os.environ["PATIENCE"]))
        answers.append((done.returncode, done.stdout, done.stderr))
    return answers


recording = sys.argv[1]
random.seed(1)
server = Server(recording, "0")
server.session.goto("60%")
stack = int.from_bytes(bytes.fromhex(server.session.ask("p7")), "little")
maps = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", server.session.monitor("maps"), re.M)
server.end()
data = [(int(a, 16), int(b, 16)) for a, b in maps if int(b, 16) - int(a, 16) < 1 << 20]
places = [(stack - random.randrange(600), random.choice([1, 2, 3, 4, 8, 16])) for _ in range(4)]
for _ in range(4):
    start, end = random.choice(data)
    places.append((random.randrange(start, end - 64), random.choice([1, 4, 8, 32])))
questions = [("%d%%" % random.randrange(40, 101), *place) for place in places]
for a, b in zip(changes(recording, questions, SLICE), changes(recording, questions, "0"), strict=True):
    assert a == b, "back to the last change: in slices %s, without %s" % (a, b)
for address, length in random.sample(places, 3):
    sliced, whole = stores(recording, address, length, SLICE), stores(recording, address, length, "0")
    assert whole[0][0] == 0, whole
    assert sliced == whole, "stores to %#x, %d bytes: in slices %s, without %s" % (address, length, sliced, whole)
