"""A client of the gdb remote protocol, for tests that ask more often than gdb could: Session(port) and the
walks below, run as `rsp.py PORT WHAT [ARG...]`."""
import hashlib
import os
import random
import re
import socket
import sys
import time


class Session:
    def __init__(self, port):
        for _ in range(20 * int(os.environ["PATIENCE"])):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.05)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.output = ""
        self.runs = 0  # packets with run-length encoding
        self.acknowledge = True
        assert "ReverseStep+" in self.ask("qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+")
        assert self.ask("QStartNoAckMode") == "OK"
        self.acknowledge = False

    def read_packet(self):
        while True:
            start = self.buffer.find(b"$")
            end = self.buffer.find(b"#", start)
            if start >= 0 and end >= 0 and len(self.buffer) >= end + 3:
                data = self.buffer[start + 1:end]
                self.buffer = self.buffer[end + 3:]
                if self.acknowledge:
                    self.socket.sendall(b"+")
                if b"*" in data:
                    self.runs += 1
                data = re.sub(rb"(.)\*(.)", lambda m: m[1] * (m[2][0] - 28), data, flags=re.S)
                return re.sub(rb"}(.)", lambda m: bytes([m[1][0] ^ 0x20]), data, flags=re.S)
            more = self.socket.recv(65536)
            if not more:
                raise EOFError("the server has closed the connection")
            self.buffer += more

    def send(self, text):
        data = text if isinstance(text, bytes) else text.encode("latin-1")
        self.socket.sendall(b"$" + data + b"#%02x" % (sum(data) % 256))

    def ask(self, text):
        """One packet, one answer; console output on the way is collected."""
        self.send(text)
        while True:
            answer = self.read_packet().decode("latin-1")
            if re.fullmatch("O(?:[0-9a-f]{2})+", answer):
                self.output += bytes.fromhex(answer[1:]).decode("latin-1")
                continue
            return answer

    def monitor(self, line):
        self.output = ""
        answer = self.ask("qRcmd," + line.encode().hex())
        assert answer == "OK", answer
        return self.output

    def when(self):
        return re.search(r"@\d+:0x[0-9a-f]+", self.monitor("when"))[0]

    def goto(self, where):
        text = self.monitor("goto " + where)
        assert text.startswith("now at "), text
        return re.search(r"@\d+:0x[0-9a-f]+", text)[0]

    def state(self):
        """Everything there is, at this moment."""
        return self.monitor("checksum") + self.ask("g")


def last_tick(s):
    return int(s.goto("end")[1:].split(":")[0])


def symmetry(s, count, seed):
    """Every moment visited forwards is visited backwards, in reverse order, in the same state."""
    random.seed(seed)
    ticks = last_tick(s)
    for place in range(4):
        here = s.goto("@%d" % random.randrange(ticks))
        if place == 0:
            here = s.goto("start")
        seen = [(here, s.state())]
        for _ in range(count):
            if "replaylog" in s.ask("vCont;s"):
                break
            seen.append((s.when(), s.state()))
        for place, state in reversed(seen[:-1]):
            s.ask("bs")
            now = s.when()
            assert now == place, "backwards at %s, forwards at %s" % (now, place)
            assert s.state() == state, "another state at %s" % place
        assert len({p for p, _ in seen}) == len(seen), "a control point twice"


def walk(s, count, seed):
    """Random jumps and steps: the state at a control point is always the same."""
    random.seed(seed)
    ticks = last_tick(s)
    known = {}
    places = []
    for i in range(count):
        how = random.randrange(6)
        if how == 0 or not places:
            here = s.goto("@%d" % random.randrange(ticks))
        elif how <= 2:
            here = s.goto(random.choice(places))
        elif how == 3:
            s.ask("vCont;s")
            here = s.when()
        elif how == 4:
            s.ask("bs")
            here = s.when()
        else:
            here = s.goto("%.3f%%" % random.uniform(0, 100))
        state = s.state()
        if here in known:
            assert known[here] == state, "another state at %s (move %d)" % (here, i)
        else:
            known[here] = state
            places.append(here)
    print("%d moments" % len(known))


def states(s, count, seed):
    """Random moments and their states, for comparing two sessions."""
    random.seed(seed)
    ticks = last_tick(s)
    for _ in range(count):
        here = s.goto("@%d" % random.randrange(ticks))
        print(here, hashlib.sha256(s.state().encode()).hexdigest())


def onwards(s, *ticks):
    """From each of these moments forward to the end: replay checks itself on the way."""
    # At first there is nothing else to start from; later the session has made checkpoints of its own. What is near the
    # start is not worth one.
    farthest = max(int(tick) for tick in ticks)
    s.goto("@%d" % farthest)
    used = int(re.search(r"(\d+) used", s.monitor("stored"))[1])
    print("%d used" % used)
    assert used > 0 or farthest < 50_000_000, "no stored checkpoint was used"
    end = s.goto("end")
    assert s.ask("QPassSignals:" + ";".join("%x" % n for n in range(1, 150))) == "OK"
    for tick in ticks:
        s.goto("@%d" % tick)
        for _ in range(100000):
            if "replaylog:end" in s.ask("vCont;c"):
                break
        assert s.when() == end, "the end is at %s, not at %s" % (s.when(), end)


def last_writes(s, count, *addresses):
    """Back from the end over the last changes of each address, by `last`."""
    for address in addresses:
        s.goto("end")
        for _ in range(count):
            text = s.monitor("last %#x 8" % address)
            print("%#x" % address, s.when(), " ".join(text.split()))
            if "not changed" in text:
                break
    print("#", s.monitor("stored").strip())


def last_hits(s, count, *addresses):
    """Back from the end over the hits of breakpoints at all of these."""
    s.goto("end")
    for address in addresses:
        assert s.ask("Z0,%x,1" % address) == "OK"
    for _ in range(count):
        reply = s.ask("bc")
        print(s.when(), reply.split("thread")[0], s.monitor("checksum").strip())
        if "replaylog" in reply:
            break
    print("#", s.monitor("stored").strip())


def next_hits(s, words, *addresses):
    """From the start to the end: over the hits of breakpoints at all addresses but the last `words`, which are
    watched; with what the program writes on the way."""
    s.goto("start")
    for i, address in enumerate(addresses):
        assert s.ask(("Z0,%x,1" if i < len(addresses) - words else "Z2,%x,8") % address) == "OK"
    quiet = 0
    for _ in range(200):
        s.output = ""
        reply = s.ask("vCont;c")
        output = s.output
        quiet += int(s.monitor("stored").split()[-1])
        print(s.when(), reply.split("thread")[0], s.monitor("checksum").strip(), repr(output))
        if "replaylog" in reply or reply[0] != "T":
            break
    print("# windows passed over", quiet)


def breaks(s, address, limit):
    """A breakpoint's hits backwards are its hits forwards, in reverse order."""
    s.goto("start")
    assert s.ask("Z0,%x,1" % address) == "OK"
    forwards = []
    while len(forwards) < limit:
        reply = s.ask("vCont;c")
        if "swbreak" not in reply:
            break
        forwards.append((s.when(), s.state()))
    print("%d hits" % len(forwards))
    assert forwards, "no hits at %#x" % address
    if "swbreak" in reply:
        forwards.pop()
    for place, state in reversed(forwards):
        assert "swbreak" in s.ask("bc")
        assert s.when() == place, "backwards at %s, forwards at %s" % (s.when(), place)
        assert s.state() == state, "another state at %s" % place
    assert "replaylog:begin" in s.ask("bc")
    assert s.ask("z0,%x,1" % address) == "OK"


def events(s, *calls):
    """Signals, forks, and system calls before and behind: the same stops both ways, in the same state."""
    assert "fork-events+" in s.ask("qSupported:multiprocess+;swbreak+;fork-events+")
    assert s.ask("QCatchSyscalls:1" + "".join(";%x" % c for c in calls)) == "OK"
    s.goto("start")
    kind = lambda reply: re.match(r"T..(?:syscall_\w+:\w+|fork:\w+\.\w+|replaylog:\w+)?", reply)[0]
    forwards = []
    while True:
        reply = s.ask("vCont;c")
        if "replaylog" in reply:
            break
        forwards.append((s.when(), kind(reply), s.state()))
        if "fork:" in reply:
            child = re.search(r"fork:p(\w+)", reply)[1]
            assert s.ask("Hgp%s.%s" % (child, child)) == "OK"
            assert s.ask("z0,%x,1" % 0x1000) == "OK"
            assert s.ask("D;" + child) == "OK"
    end = s.when()
    while forwards and forwards[-1][0] == end:
        forwards.pop()  # the call that ends it all is where we are
    seen = [k for _, k, _ in forwards]
    print(" ".join(seen))
    for place, what, state in reversed(forwards):
        reply = s.ask("bc")
        assert (s.when(), kind(reply)) == (place, what), "backwards %s at %s, forwards %s at %s" % (
            kind(reply), s.when(), what, place)
        assert s.state() == state, "another state at %s" % place
    assert "replaylog:begin" in s.ask("bc")
    # A signal that is passed stops neither way.
    signals = {k for k in seen if k not in ("T05",) and len(k) == 3}
    assert s.ask("QPassSignals:" + ";".join(k[1:] for k in signals)) == "OK"
    assert s.ask("QCatchSyscalls:0") == "OK"
    for packet in "vCont;c", "bc":
        while True:
            reply = s.ask(packet)
            if "replaylog" in reply:
                break
            assert "fork:" in reply, reply


def across(s):
    """From program to program over execve, and back: the same events, in the same states."""
    assert "exec-events+" in s.ask("qSupported:multiprocess+;swbreak+;fork-events+;vfork-events+;exec-events+")
    log = lambda: int(re.search(r"^\* #(\d+)", s.monitor("process"), re.M)[1])
    here = lambda: (log(), s.when(), s.state())
    def move(packet):
        reply = s.ask(packet)
        what = re.match(r"T05(?:replaylog:)?(\w+)", reply)[1]
        if what in ("fork", "vfork"):
            child = re.search(r"fork:p(\w+)", reply)[1]
            assert s.ask("Hgp%s.%s" % (child, child)) == "OK"
            assert s.ask("z0,%x,1" % 0x1000) == "OK"
            assert s.ask("D;" + child) == "OK"
        return what
    s.goto("start")
    forwards = []
    while True:
        before = log()
        what = move("vCont;c")
        forwards.append((what, here()))
        if what == "exec":
            assert log() != before and re.match(r"@0:", s.when()), s.when()
        if what == "end":
            break
    print(" ".join(what for what, _ in forwards))
    starts = [place for what, place in forwards if what == "exec"]
    expected = []
    for what, place in reversed(forwards[:-1]):
        if what == "vforkdone":
            continue  # comes behind its vfork in both directions
        expected.append((what, place))
        if what == "vfork":
            expected.append(("vforkdone", place))
    for what, place in expected:
        if what == "exec":
            number = log()
            assert place[0] == number
            # A step back does not leave the program.
            s.goto("start")
            assert here() == place, "another start of #%d" % number
            assert move("bs") == "begin" and here() == place
        assert move("bc") == what
        if what == "exec":
            there = here()
            assert there[0] < number
            s.goto("end")
            assert here() == there, "another end of #%d" % there[0]
        else:
            assert here() == place, "backwards %s, forwards %s" % (here()[:2], place[:2])
    assert move("bc") == "begin" and s.when().startswith("@0:")
    # Forwards again.
    assert [move("vCont;c") for _ in forwards] == [what for what, _ in forwards]
    assert here() == forwards[-1][1]
    assert len(starts) == 2, starts


def conditions(s, function, step, count):
    """A breakpoint on a function's entry with `rdi % step == 7`: it stops there and nowhere else, in the very state, both
    ways; and conditions that are never true, on every instruction around it, change nothing."""
    holds = "260005" + "24%08x" % step + "08" + "2207" + "13" + "27"
    never = "260010" + "2200" + "13" + "27"  # $pc == 0
    instructions = [int(a, 16) for a in sys.stdin.read().split()]
    assert len(instructions) > 10, "no instructions"
    s.goto("start")
    for pc in instructions:
        if pc != function:
            assert s.ask("Z0,%x,1;X%x,%s" % (pc, len(never) // 2, never)) == "OK"
    assert s.ask("Z0,%x,1;X%x,%s" % (function, len(holds) // 2, holds)) == "OK"
    rdi = lambda: int.from_bytes(bytes.fromhex(s.ask("p5")), "little")
    forwards = []
    while "swbreak" in s.ask("vCont;c"):
        assert rdi() % step == 7, "stopped with rdi %d, hit %d" % (rdi(), len(forwards))
        forwards.append((s.when(), s.state()))
    assert len(forwards) == count, "%d hits instead of %d" % (len(forwards), count)
    final = s.state()
    for place, state in reversed(forwards):
        assert "swbreak" in s.ask("bc")
        assert (s.when(), s.state()) == (place, state), "backwards at %s, forwards at %s" % (s.when(), place)
    assert "replaylog:begin" in s.ask("bc")
    for pc in instructions:
        assert s.ask("z0,%x,1" % pc) == "OK"
    for place, state in random.Random(1).sample(forwards, 5):
        s.goto(place)
        assert s.state() == state, "another state at %s" % place
    s.goto("end")
    assert s.state() == final, "another end"


def oracle(s, base, marker, *ranges):
    """Watchpoints both ways against the oracle's list (stdin). `base`, `marker`: tick and pc of the first marker; `ranges`:
    address and length of each of the watched stretches."""
    changes = {}
    for line in sys.stdin:
        word, *numbers = line.split()
        if word == "change":
            k, *places = (int(n, 0) for n in numbers)
            changes.setdefault(k, []).append(places)
    place = lambda tick, pc: "@%d:%#x" % (base + tick, pc)
    assert s.ask("QPassSignals:1e") == "OK"  # SIGUSR1
    for k in range(len(ranges) // 2):
        address, length = ranges[2 * k], ranges[2 * k + 1]
        wanted = changes[k]
        print("%d changes of %#x" % (len(wanted), address))
        assert len(wanted) > 3
        s.goto("@%d:%#x" % (base, marker))
        assert s.ask("Z2,%x,%x" % (address, length)) == "OK"
        first = wanted[0]
        forwards = []
        while len(forwards) < len(wanted):
            reply = s.ask("vCont;c")
            assert "watch:%x;" % address in reply, "%s after %s" % (reply, forwards[-1:])
            forwards.append(s.when())
            # The bytes may change between the first marker and the one that names them.
            if forwards[-1] != place(*first[2:]) and len(forwards) == 1:
                forwards.pop()
        assert forwards == [place(*c[2:]) for c in wanted], "forwards: %s" % forwards
        last = s.when()
        backwards = []
        for _ in wanted:
            assert "watch:%x;" % address in s.ask("bc")
            backwards.append(s.when())
        assert backwards == [place(*c[:2]) for c in reversed(wanted)], "backwards from %s: %s" % (last, backwards)
        assert s.ask("z2,%x,%x" % (address, length)) == "OK"


def watches(s, address, length, first, last):
    """Watchpoint hits between two places, both ways, against what single steps and looking at the bytes find."""
    s.goto("@%d" % first)
    look = lambda: s.ask("m%x,%x" % (address, length))
    value, before = look(), s.when()
    changes = []
    while True:
        s.ask("vCont;s")
        here, now = s.when(), look()
        if now != value:
            changes.append((before, here))
        value, before = now, here
        if int(here[1:].split(":")[0]) >= last:
            break
    end = here
    print("%d changes" % len(changes))
    assert changes, "nothing changes there"
    s.goto("@%d" % first)
    assert s.ask("Z2,%x,%x" % (address, length)) == "OK"
    for _, after in changes:
        reply = s.ask("vCont;c")
        assert "watch:%x;" % address in reply, reply
        assert s.when() == after, "watch stops at %s, the change is at %s" % (s.when(), after)
    s.goto(end)
    for place, _ in reversed(changes):
        reply = s.ask("bc")
        assert "watch:%x;" % address in reply, reply
        assert s.when() == place, "backwards at %s, the change is at %s" % (s.when(), place)
    assert s.ask("z2,%x,%x" % (address, length)) == "OK"


if __name__ == "__main__":
    session = Session(int(sys.argv[1]))
    what, *arguments = sys.argv[2:]
    start = time.time()
    globals()[what](session, *(int(a, 0) for a in arguments))
    print("%s: %.1f s" % (what, time.time() - start))
    session.send("D")
