"""PNG files, written and read without a library, and JPEG files."""
import math
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


def png_palette(content):
    """The colours of a PNG whose pixels are numbers of them."""
    at = content.index(b"PLTE")
    length, = struct.unpack(">I", content[at - 4:at])
    data = content[at + 4:at + 4 + length]
    return [tuple(data[i:i + 3]) for i in range(0, length, 3)]


ZIGZAG = sorted(range(64), key=lambda at: (at // 8 + at % 8, at // 8 if (at // 8 + at % 8) % 2 else at % 8))
COSINES = [[math.cos((2 * x + 1) * u * math.pi / 16) * (math.sqrt(0.125) if u == 0 else 0.5) for x in range(8)] for u in range(8)]


def jpeg(width, height, rows):
    """A grey baseline JPEG, hardly quantised, with Huffman codes of one length."""
    quantum, lengths = 2, [run * 16 + size for run in range(16) for size in range(1, 11)] + [0x00, 0xF0]
    bits = []

    def put(value, count):
        bits.extend(value >> i & 1 for i in reversed(range(count)))

    def put_number(number, size):
        put(number if number > 0 else number + (1 << size) - 1, size)

    before = 0
    for top in range(0, height, 8):
        for left in range(0, width, 8):
            block = [[rows[min(top + y, height - 1)][min(left + x, width - 1)] - 128 for x in range(8)] for y in range(8)]
            across = [[sum(row[x] * COSINES[u][x] for x in range(8)) for u in range(8)] for row in block]
            waves = [sum(across[y][at % 8] * COSINES[at // 8][y] for y in range(8)) for at in ZIGZAG]
            numbers = [round(wave / quantum) for wave in waves]
            step, before = numbers[0] - before, numbers[0]
            put(abs(step).bit_length(), 4)
            put_number(step, abs(step).bit_length())
            zeros = 0
            for number in numbers[1:]:
                zeros += number == 0
                if number == 0:
                    continue
                for _ in range(zeros // 16):
                    put(lengths.index(0xF0), 8)
                put(lengths.index(zeros % 16 * 16 + abs(number).bit_length()), 8)
                put_number(number, abs(number).bit_length())
                zeros = 0
            if zeros:
                put(lengths.index(0x00), 8)
    bits.extend([1] * (-len(bits) % 8))
    data = bytes(int("".join(map(str, bits[i:i + 8])), 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")

    def part(kind, content):
        return struct.pack(">BBH", 0xFF, kind, len(content) + 2) + content

    tables = bytes([0x00, 0, 0, 0, 12] + [0] * 12 + list(range(12)) + [0x10] + [0] * 7 + [len(lengths)] + [0] * 8 + lengths)
    return (b"\xff\xd8" + part(0xDB, bytes([0] + [quantum] * 64)) + part(0xC4, tables)
            + part(0xC0, struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0))
            + part(0xDA, bytes([1, 1, 0, 0, 63, 0])) + data + b"\xff\xd9")
