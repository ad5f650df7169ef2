"""PNG files, written and read without a library."""
import struct
import zlib


def png(width, height, colour_type, rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def png_rows(content, channels):
    """Rows of a PNG of 8-bit channels, any filters."""
    at, data = 8, b""
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", content[at + 8:at + 16])
        if kind == b"IDAT":
            data += content[at + 8:at + 8 + length]
        at += length + 12
    data, stride, before, rows = zlib.decompress(data), width * channels, bytes(width * channels), []
    for y in range(height):
        kind, row = data[y * (stride + 1)], bytearray(data[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            a, b, c = (row[x - channels] if x >= channels else 0, before[x], before[x - channels] if x >= channels else 0)
            nearest = min((a, b, c), key=lambda v, p=a + b - c: abs(p - v))
            row[x] = (row[x] + (0, a, b, (a + b) // 2, nearest)[kind]) & 255
        rows.append(list(row))
        before = bytes(row)
    return rows
