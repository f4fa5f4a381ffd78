"""Runs a debug module without a replay, in gdb: PROGRAM runs to the first place of the module (natively; it is no PIE, so
its addresses are those of the recording), the module is put into its memory and started, and at each place that the
program comes to, the module's function is called with the program's registers.

usage: gdb -batch -x probe_native.py PROGRAM    with PROBE_MODULE (from probe --output), PROBE_REPORT (from --json)
"""
import json
import os
import struct

import gdb

module = open(os.environ["PROBE_MODULE"], "rb").read()
report = json.load(open(os.environ["PROBE_REPORT"]))
places = {}
for p in report["places"]:
    places.setdefault(int(p["pc"], 16), []).append(int(p["calls"], 16))

gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set breakpoint pending on")
gdb.execute("set style enabled off")


def number(expression):
    return int(gdb.parse_and_eval(expression)) & (1 << 64) - 1


def write(address, data):
    gdb.selected_inferior().write_memory(address, data)


GPR = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"] + ["r%d" % n for n in range(8, 16)]
ALL = GPR + ["rip", "eflags", "fs_base", "gs_base"]


def registers():
    return {name: number("$" + name) for name in ALL}


def restore(values):
    for name, value in values.items():
        gdb.execute("set $%s = %d" % (name, value))


def mmap(address, size):
    """By a system call of the program's, made where it has been already. (gdb's own calls need to write vector registers, which
    some kernels do not let gdb 13 do.)"""
    start = number("(long)&_start")
    before = registers()
    write(start, b"\x0f\x05\xcc")
    restore({"rip": start, "rax": 9, "rdi": address, "rsi": size, "rdx": 7, "r10": 0x32, "r8": (1 << 64) - 1, "r9": 0,
             "orig_rax": (1 << 64) - 1})
    gdb.execute("continue")
    if number("$rax") != address:
        raise gdb.GdbError("cannot map the module")
    restore(before)


STACK, STACK_SIZE = 0x47000000, 0x200000
symbols = {}


def load():
    entry, phoff = struct.unpack_from("<QQ", module, 24)
    phentsize, phnum = struct.unpack_from("<HH", module, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", module, phoff + i * phentsize) for i in range(phnum)]
    loads = [s for s in segments if s[0] == 1]
    low = min(s[3] for s in loads) & ~4095
    high = max(s[3] + s[6] for s in loads) + 4095 & ~4095
    mmap(low, high - low)
    mmap(STACK, STACK_SIZE)
    for s in loads:
        write(s[3], module[s[2]:s[2] + s[5]])
    top = STACK + STACK_SIZE - 4096
    write(top + 1024, b"module\0")
    auxv = [(3, low + phoff), (4, phentsize), (5, phnum), (6, 4096), (9, entry), (23, 0), (25, top + 2048), (0, 0)]
    words = [1, top + 1024, 0, 0] + [w for pair in auxv for w in pair]
    write(top, struct.pack("<%dQ" % len(words), *words))
    return entry, top


def text_at(values):
    """struct backstep_registers"""
    words = [values[r] for r in GPR] + [values["rip"], values["eflags"], values["fs_base"], values["gs_base"]]
    words += [0, 0, 1, STACK + 8192] + [0] * 4
    return struct.pack("<%dQ" % len(words), *words)


for pc in places:
    gdb.execute("break *%d" % pc)
gdb.execute("run > %s" % os.environ["PROBE_OUT"])
own = registers()
entry, top = load()
# Its main() would say that it is ready.
for line in os.popen("nm '%s'" % os.environ["PROBE_MODULE"]):
    parts = line.split()
    if len(parts) == 3:
        symbols[parts[2]] = int(parts[0], 16)
stop = symbols["main"]
gdb.execute("break *%d" % stop)
restore({"rip": entry, "rsp": top, "rdx": 0, "rbp": 0})
gdb.execute("continue")
module_fs = number("$fs_base")


def call(function, at):
    vectors = b"".join(struct.pack("<Q", number("(unsigned long)$ymm%d.v4_int64[%d]" % (n, part)))
                       for n in range(16) for part in range(4))
    write(STACK + 4096, text_at(at))
    write(STACK + 8192, vectors)
    rsp = top - 4096
    write(rsp - 8, struct.pack("<Q", stop))
    restore({"rip": function, "rsp": rsp - 8, "rdi": STACK + 4096, "fs_base": module_fs})
    gdb.execute("continue")
    if number("$rip") != stop:
        raise gdb.GdbError("the debug code stopped at %#x" % number("$rip"))


while True:
    for function in places.get(own["rip"], []):
        call(function, own)
    restore(own)
    # Where it was put by us gdb would stop again at once.
    gdb.execute("disable")
    gdb.execute("stepi")
    gdb.execute("enable")
    gdb.execute("continue")
    if not gdb.selected_inferior().threads():
        break
    own = registers()
