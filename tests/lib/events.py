"""Reads a TensorBoard event file, checksums and all: prints tag, step, kind and value."""
import struct, sys, zlib


def crc32c(data):
    c = 0xffffffff
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff


def masked(data):
    c = crc32c(data)
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff


def fields(b):
    at = 0

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            c = b[at]
            at += 1
            x |= (c & 127) << shift
            shift += 7
            if c < 128:
                return x
    while at < len(b):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value, at = b[at:at + size], at + size
        yield number, value


def pixels(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        n, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + n]
        assert struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width = struct.unpack(">I", body[:4])[0] * {0: 1, 2: 3, 6: 4}[body[9]]
        if kind == b"IDAT":
            data += zlib.decompress(body)
        at += 12 + n
    return [list(data[i + 1:i + 1 + width]) for i in range(0, len(data), width + 1)]


def show(value):
    f = dict(fields(value))
    tag = f[1].decode()
    if 2 in f:
        return f"{tag} scalar {struct.unpack('<f', f[2])[0]:g}"
    if 4 in f:
        i = dict(fields(f[4]))
        return f"{tag} image {i[1]}x{i[2]}x{i[3]} {pixels(i[4])}"
    if 5 in f:
        h = dict(fields(f[5]))
        lo, hi, n = (struct.unpack("<d", h[k])[0] for k in (1, 2, 3))
        counts = struct.unpack(f"<{len(h[7]) // 8}d", h[7])
        assert len(h[6]) == len(h[7]) and sum(counts) == n
        return f"{tag} histogram {lo:g} {hi:g} {n:g} {[int(c) for c in counts if c]}"
    t = list(fields(f[8]))
    dims = [dict(fields(d))[1] for d in (v for n, v in fields(dict(t)[2]) if n == 2)]
    return f"{tag} tensor {dims} {list(struct.unpack(f'<{len(dict(t)[4]) // 4}f', dict(t)[4]))}"


data, at = open(sys.argv[1], "rb").read(), 0
while at < len(data):
    head = data[at:at + 8]
    n = struct.unpack("<Q", head)[0]
    body = data[at + 12:at + 12 + n]
    assert struct.unpack("<I", data[at + 8:at + 12])[0] == masked(head)
    assert struct.unpack("<I", data[at + 12 + n:at + 16 + n])[0] == masked(body)
    event = dict(fields(body))
    if 3 in event:
        print(event[3].decode())
    for number, value in fields(event.get(5, b"")):
        print(event.get(2, 0), show(value))
    at += 16 + n
