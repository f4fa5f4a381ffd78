"""Random queries against lists that `log` makes: query_walks.py RECORDING SEED."""
import random
import re
import subprocess
import sys

import backstep

recording, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)


def key(at):
    tick, pc = at[1:].split(":")
    return int(tick), int(pc, 16)


class Walk:
    """Moments in the order of time, some of which a condition selects."""

    def __init__(self, session, type, spec, values=(), choices=()):
        self.session, self.type, self.choices = session, type, choices
        specs = [spec] if isinstance(spec, str) else spec
        hits = [h for s in specs for h in session.log(s, *values, stack=True)]
        order = {h.at: i for i, h in enumerate(sorted(hits, key=lambda h: key(h.at)))}
        self.hits = sorted(hits, key=lambda h: order[h.at])
        assert self.hits, (type, spec)

    def check(self, rounds):
        for _ in range(rounds):
            condition, holds = random.choice(self.choices)
            some = [h.at for h in self.hits if holds(h)]
            seen = []
            for at in some:  # a call and what is inlined in it may be several places at one moment
                if not seen or seen[-1] != at:
                    seen.append(at)
            count = random.randint(1, 4)
            forward = random.random() < 0.5
            start = random.choice(["current", "current", "first" if forward else "last"])
            where = f" where {condition}" if condition else ""
            query = f"goto {start} {'forward' if forward else 'backward'} {self.type} {count}{where}"
            if start == "current":
                here = random.choice(self.hits).at
                assert self.session.goto(here).at == here, here
                after = [at for at in seen if key(at) > key(here)] if forward else [at for at in seen if key(at) < key(here)]
            else:
                here, after = start, seen
            wanted = (after[count - 1] if forward else after[-count]) if len(after) >= count else None
            moves = random.random() < 0.3
            before = self.session.now().at
            hit = self.session.query(query, move=moves)
            found = hit and hit.at
            assert found == wanted, f"{query} from {here}: {found} instead of {wanted}"
            now = self.session.now().at
            assert now == (found if found and moves else before), f"{query} leaves the session at {now}"


def stack_of(hit):
    return [f.function for f in reversed(hit.stack)]


def leaders(code, counts):
    """Blocks of a function by its disassembly and how often each instruction was executed."""
    starts = {code[0][0]}
    addresses = [a for a, _ in code]
    for (address, text), following in zip(code, addresses[1:] + [None]):
        jump = re.match(r"(bnd |notrack )?(j\w+|call\w*|ret\w*|loop\w*)\b(.*)", text)
        if jump and following:
            starts.add(following)
        if jump and jump[2][0] in "jl":
            target = re.match(r"\s+([0-9a-f]+) ", jump[3])
            if target and int(target[1], 16) in addresses:
                starts.add(int(target[1], 16))
        if not jump and following and counts[following] > counts[address]:
            starts.add(following)
    return sorted(starts)


with backstep.open(recording) as s:
    middle = s.ask("info")["ticks"] // 2
    Walk(s, "func_enter", "call leaf", ["$arg0", "$thread"], [
        ("func=<leaf>", lambda h: True),
        ("func=<leaf> and arg0 > 100", lambda h: h.values["$arg0"] > 100),
        ("func=<le*f> and thread = 2", lambda h: h.values["$thread"] == 2),
        ("stack=<*,left,leaf>", lambda h: stack_of(h)[-2] == "left"),
        ("stack=<*,right,?,leaf> or stack=<*,work,*,leaf>",
         lambda h: stack_of(h)[-3] == "right" or "work" in stack_of(h)),
        ("func=<leaf> and not (stack=<*,main,left,leaf> or arg0 = 3)",
         lambda h: not (stack_of(h)[-3:] == ["main", "left", "leaf"] or h.values["$arg0"] == 3)),
        (f"func=<leaf> and tick >= {middle}", lambda h: h.tick >= middle),
    ]).check(18)
    Walk(s, "func_exit", "return leaf", ["$retval"], [
        ("func=<leaf>", lambda h: True),
        ("func=<leaf> and retval >= 40 and retval != 44", lambda h: h.values["$retval"] >= 40 and h.values["$retval"] != 44),
        ("retval < 10 and stack=<*,left,leaf>", lambda h: h.values["$retval"] < 10 and stack_of(h)[-2] == "left"),
    ]).check(10)
    Walk(s, "line", "walk.c:8", ["total", "$thread"], [
        ("src=<walk.c:8>", lambda h: True),
        ("src=<walk.c,8> and total > 500", lambda h: h.values["total"] > 500),
        ("src=<walk.c:8-8> and (thread=1 or total<100)", lambda h: h.values["$thread"] == 1 or h.values["total"] < 100),
        ("func=<leaf> and src=<walk.c:8> and stack=<*,right,leaf>", lambda h: stack_of(h)[-2] == "right"),
    ]).check(10)
    Walk(s, "store", "write total", ["$old", "$new"], [
        ("addr=&total", lambda h: True),
        ("addr=&total and newval > oldval + 5", lambda h: h.values["$new"] > h.values["$old"] + 5),
        ("addr = &total and func=<choose>", lambda h: h.stack[0].function == "choose"),
        ("addr=&total and src=<walk.c:7>", lambda h: h.stack[0].function == "leaf"),
        ("addr=&total and stack=<*,right,leaf>", lambda h: stack_of(h)[-2] == "right"),
    ]).check(10)
    Walk(s, "store", ["write total", "write other"], ["total"], [
        ("addr=&total or addr=&other", lambda h: True),
        ("(addr=&total or addr=&other) and total > 700", lambda h: h.values["total"] > 700),
    ]).check(6)
    Walk(s, "load", "read other", ["$thread"], [("addr=&other", lambda h: True), ("addr=&other and thread=1", lambda h: h.values["$thread"] == 1)]).check(6)
    Walk(s, "syscall", "syscall write", ["$fd", "$count"], [
        ("name=<write>", lambda h: True), ("name=<write> and arg0=1 and $count > 4", lambda h: h.values["$count"] > 4)]).check(6)
    Walk(s, "syscall", "syscall write after", ["$retval"], [("name=<write> and retval > 4", lambda h: h.values["$retval"] > 4)]).check(4)
    Walk(s, "syscall", "syscall", ["$rax"], [("", lambda h: True), ("$rax = 1 or $rax = 257", lambda h: h.values["$rax"] in (1, 257))]).check(6)
    Walk(s, "signal", "signal", [], [("", lambda h: True), ("name=<SIGUSR1>", lambda h: True), ("name=<USR2>", lambda h: False)]).check(4)

    # Blocks: the code as objdump shows it, at the address where it was mapped.
    for function in ("leaf", "left", "choose"):
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", "walk"],
                              capture_output=True, text=True, check=True).stdout
        code = [(int(m[1], 16), m[2]) for m in re.finditer(r"^\s+([0-9a-f]+):\t(.*)$", text, re.M)]
        bias = next(s.log(f"call {function}", limit=1)).pc - code[0][0]
        answers = s.ask("count", specs=[f"{a + bias:#x}" for a, _ in code])
        counts = {a: answer["count"] for (a, _), answer in zip(code, answers)}
        starts = [a + bias for a in leaders(code, counts)]
        Walk(s, "block_entry", [f"{a:#x}" for a in starts if counts[a - bias]], ["$thread"], [
            (f"func=<{function}>", lambda h: True),
            (f"func=<{function}> and thread = 1", lambda h: h.values["$thread"] == 1),
            (f"stack=<*,main,*,{function}>", lambda h: "main" in stack_of(h)),
        ]).check(6)
    hits = s.query("goto last backward block_entry 5 where src=<walk.c:9> and thread=1", move=False)
    assert hits and hits.function == "leaf", hits
