"""Damages the log of a recording, for the damage cases (format: src/recording/format.h, docs/trace-format.md).

    damage.py places LOG N            N byte offsets spread over the bytes in use, headers included
    damage.py events LOG              number, kind, offset and size of each event
    damage.py flip LOG OFFSET         flips one bit of that byte
    damage.py remove LOG NUMBER       takes one event out, with all lengths and checksums put right again
    damage.py change LOG OLD NEW      puts other bytes of the same length into the one event that has OLD, likewise
    damage.py version LOG N           writes another format version into the header
    damage.py tails LOG               number of each chunk that others follow, and an unused byte of it
    damage.py sign MANIFEST           puts the checksum of a manifest right
"""
import struct
import sys

HEADER, CHUNK = 64, 64
KINDS = ["none", "syscall", "instr", "signal", "map", "memory", "start", "checksum", "note", "end", "filesize", "turn",
         "shared", "gap", "resize", "channel"]

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(crc, data):
    for byte in data:  # as the CPU's instruction does: no inversion before and after
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc


def chunks(log):
    """(offset of the header, bytes used) of each chunk."""
    at = struct.unpack_from("<I", log, 12)[0]
    while at + CHUNK <= len(log) and log[at:at + 4] == b"CHNK":
        capacity = struct.unpack_from("<I", log, at + 24)[0]
        used = struct.unpack_from("<I", log, at + 32)[0]
        yield at, used
        at += capacity


def events(log):
    """(number, kind, offset, size, offset of the chunk) of each event."""
    number = 0
    for chunk, used in chunks(log):
        at = chunk + CHUNK
        while at < chunk + CHUNK + used:
            kind, size = log[at], struct.unpack_from("<I", log, at + 4)[0]
            yield number, KINDS[kind], at, size, chunk
            number, at = number + 1, at + size


def change(log, old, new):
    assert len(old) == len(new) and log.count(old) == 1
    log = bytearray(log)
    at = log.index(old)
    log[at:at + len(new)] = new
    chunk, used = next((c, u) for c, u in chunks(log) if c < at < c + CHUNK + u)
    put_body(log, chunk, bytes(log[chunk + CHUNK:chunk + CHUNK + used]))
    return log


def put_body(log, chunk, body):
    """Other events into a chunk, checksums put right."""
    used = struct.unpack_from("<I", log, chunk + 32)[0]
    # Every event ends with the low half of the running CRC of all before it, its own bytes included.
    crc, at, fixed = 0, 0, bytearray()
    while at < len(body):
        length = struct.unpack_from("<I", body, at + 4)[0]
        event = body[at:at + length - 2]
        crc = crc32c(crc, event)
        check = struct.pack("<H", crc & 0xFFFF)
        fixed += event + check
        at += length
    log[chunk + CHUNK:chunk + CHUNK + used] = fixed + bytes(used - len(fixed))
    struct.pack_into("<II", log, chunk + 32, len(fixed), crc)


def remove(log, number):
    log = bytearray(log)
    gone = next(e for e in events(log) if e[0] == number)
    _, _, offset, size, chunk = gone
    used = struct.unpack_from("<I", log, chunk + 32)[0]
    put_body(log, chunk, bytes(log[chunk + CHUNK:offset]) + bytes(log[offset + size:chunk + CHUNK + used]))
    # Later chunks count from one event less.
    for later, _ in chunks(log):
        if later > chunk:
            first = struct.unpack_from("<Q", log, later + 8)[0]
            struct.pack_into("<Q", log, later + 8, first - 1)
            header = bytes(log[later:later + 32]) + bytes(8) + bytes(log[later + 40:later + 52]) + bytes(4)
            struct.pack_into("<I", log, later + 52, crc32c(0, header + bytes(log[later + 56:later + CHUNK])))
    return log


def places(log, count):
    spans = [(0, HEADER)] + [(at, at + 40) for at, _ in chunks(log)] + [(at + CHUNK, at + CHUNK + n) for at, n in chunks(log)]
    total = sum(end - start for start, end in spans)
    result = set()
    for i in range(count):
        position = i * total // count
        for start, end in spans:
            if position < end - start:
                result.add(start + position)
                break
            position -= end - start
    return sorted(result)


def main():
    command, path, *rest = sys.argv[1:]
    with open(path, "rb") as f:
        log = f.read()
    if command == "places":
        print(*places(log, int(rest[0])))
        return
    if command == "tails":
        starts = list(chunks(log))
        for i, ((at, used), (after, _)) in enumerate(zip(starts, starts[1:])):
            if at + CHUNK + used < after:
                print(i, (at + CHUNK + used + after) // 2)
        return
    if command == "events":
        for number, kind, offset, size, _ in events(log):
            print(number, kind, offset, size)
        return
    log = bytearray(log)
    if command == "sign":
        at = log.rindex(b'"check": "') + 10
        log[at:at + 8] = b"0" * 8
        log[at:at + 8] = b"%08x" % crc32c(0, log)
    elif command == "flip":
        log[int(rest[0])] ^= 1 << int(rest[0]) % 8
    elif command == "remove":
        log = remove(log, int(rest[0]))
    elif command == "change":
        log = change(log, rest[0].encode(), rest[1].encode())
    elif command == "version":
        struct.pack_into("<I", log, 8, int(rest[0]))
    else:
        sys.exit(__doc__)
    with open(path, "wb") as f:
        f.write(log)


main()
