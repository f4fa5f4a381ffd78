"""Writes letters.otf: a CID-keyed OpenType font whose letters A, B and C are one, two and three bars, which a subroutine draws.
Its FDSelect, which says for ranges of glyphs which font dictionary has their subroutines, ends in front of C.
"""
import struct

BAR = -107  # subroutine 0: the bias of short lists


def number(n):  # of charstrings and dictionaries
    return bytes([n + 139]) if -107 <= n <= 107 else b"\x1c" + struct.pack(">h", n)


def offset(n):  # of one length, so that what comes behind it does not move
    return b"\x1d" + struct.pack(">i", n)


def index(*items):
    if not items:
        return b"\0\0"
    ends = [1]
    for item in items:
        ends.append(ends[-1] + len(item))
    return struct.pack(">HB", len(items), 2) + struct.pack(">%dH" % len(ends), *ends) + b"".join(items)


def glyph(*bars):
    code = b""
    for x, y in bars:
        code += number(x) + number(y) + b"\x15" + number(BAR) + b"\x0a"  # rmoveto, callsubr
    return code + b"\x0e"  # endchar


def cff():
    glyphs = index(glyph(), glyph((100, 0)), glyph((100, 0), (300, 0)), glyph((100, 0), (300, 0), (300, 0)))
    select = struct.pack(">BHHBH", 3, 1, 0, 0, 3)  # one range: glyphs 0 to 2
    bar = b"".join(number(n) for n in (100, 600, -100)) + b"\x06" + number(-600) + b"\x07" + b"\x0b"
    private = offset(6) + b"\x13"  # where its subroutines are, counted from here
    head, name, strings = b"\1\0\4\2", index(b"Letters"), index(b"Adobe", b"Identity")

    def top(charstrings, selects, dicts):
        return index(number(391) + number(392) + number(0) + b"\x0c\x1e" + offset(charstrings) + b"\x11" +
                     offset(selects) + b"\x0c\x25" + offset(dicts) + b"\x0c\x24")

    begin = len(head + name + top(0, 0, 0) + strings + index())
    at_select = begin + len(glyphs)
    at_private = at_select + len(select)
    at_dicts = at_private + len(private + index(bar))
    dicts = index(offset(len(private)) + offset(at_private) + b"\x12")
    return head + name + top(begin, at_select, at_dicts) + strings + index() + glyphs + select + private + index(bar) + dicts


tables = {
    b"CFF ": cff(),
    b"cmap": struct.pack(">HHHHI", 0, 1, 3, 1, 12) + struct.pack(">HHHHHHHH", 6, 16, 0, ord("A"), 3, 1, 2, 3),
    b"head": struct.pack(">18xH34x", 1000),
    b"hhea": struct.pack(">4xhhh24xH", 800, -200, 0, 1),
    b"hmtx": struct.pack(">Hhhhh", 800, 0, 0, 0, 0),
    b"maxp": struct.pack(">IH", 0x5000, 4),
}
at = 12 + 16 * len(tables)
directory, body = b"OTTO" + struct.pack(">HHHH", len(tables), 64, 2, 32), b""
for tag, table in tables.items():
    directory += tag + struct.pack(">III", 0, at + len(body), len(table))
    body += table
open("letters.otf", "wb").write(directory + body)
