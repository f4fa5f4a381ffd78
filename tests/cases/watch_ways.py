"""Watchpoint hits of one recording, found in both ways (checks in front of stores, page protection), must be the same:
watch_ways.py RECORDING, with a few random places on the stack and in writable data."""
import os
import random
import re
import subprocess
import sys

import rsp


class Server:
    def __init__(self, recording, way):
        self.process = subprocess.Popen([os.environ["BACKSTEP"], "replay", "--serve", "0", recording], text=True,
                                        env=dict(os.environ, BACKSTEP_WATCH=way), stderr=subprocess.PIPE)
        self.session = rsp.Session(int(re.search(r":(\d+);", self.process.stderr.readline())[1]))

    def end(self):
        self.process.kill()
        self.process.wait()


def hits(recording, places, way, limit=60):
    server = Server(recording, way)
    s, found = server.session, []
    for address, length in places:
        s.goto("start")
        s.ask("Z2,%x,%x" % (address, length))
        for _ in range(limit):
            reply = s.ask("vCont;c")
            found.append((address, length, reply.split(";")[0], s.when()))
            if "replaylog" in reply:
                break
        s.ask("z2,%x,%x" % (address, length))
    server.end()
    return found


recording = sys.argv[1]
random.seed(1)
server = Server(recording, "")
server.session.goto("60%")
stack = int.from_bytes(bytes.fromhex(server.session.ask("p7")), "little")
maps = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", server.session.monitor("maps"), re.M)
server.end()
data = [(int(a, 16), int(b, 16)) for a, b in maps if int(b, 16) - int(a, 16) < 1 << 20]
places = [(stack - random.randrange(600), random.choice([1, 2, 3, 4, 8, 16])) for _ in range(6)]
for _ in range(4):
    start, end = random.choice(data)
    places.append((random.randrange(start, end - 64), random.choice([1, 4, 8, 32])))
checks, pages = hits(recording, places, ""), hits(recording, places, "pages")
for a, b in zip(checks, pages):
    assert a == b, "%#x, %d bytes: store checks say %s, page protection says %s" % (a[0], a[1], a[2:], b[2:])
assert len(checks) == len(pages)
print("%d hits" % len(checks))
