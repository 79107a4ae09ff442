"""Seeded damage to what a file means, where its form is guarded by lengths and checksums, which stay right."""

import json
import random
import struct
import zlib
from collections.abc import Callable

Content = dict[str, tuple[str, list[int], bytes]]             # name -> type, shape, bytes of a tensor
WIDTHS = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "U8": 1, "I8": 1, "BOOL": 1}
NUMBERS = [b"\xff" * 8, b"\x7f" * 8, b"\0" * 8, b"\x80" * 8, struct.pack("<f", float("nan")) * 2,
           struct.pack("<f", float("inf")) * 2, struct.pack("<q", 2**62), struct.pack("<q", -1), struct.pack("<q", 1)]


def change_tensors(content: bytes, rng: random.Random) -> bytes:
    """A safetensors file of which one tensor has other numbers, another type, shape or name, or is not there."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + size])
    texts = header.pop("__metadata__", {})
    tensors: Content = {name: (one["dtype"], one["shape"], content[8 + size:][slice(*one["data_offsets"])])
                        for name, one in header.items()}
    for _ in range(rng.choice([1, 1, 2, 5])):
        if tensors:
            change_tensor(tensors, rng)
    end, parts = 0, []
    for name, (kind, shape, held) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + len(held)]}
        end += len(held)
        parts.append(held)
    text = json.dumps({"__metadata__": texts, **{name: header[name] for name in tensors}}).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def change_tensor(tensors: Content, rng: random.Random) -> None:
    """Change one of some tensors."""
    name = rng.choice(sorted(tensors))
    kind, shape, held = tensors[name]
    width, way = WIDTHS[kind], rng.randrange(8)
    if way < 3 and held:                                      # other numbers, at places that may be the last ones
        changed = bytearray(held)
        for _ in range(rng.choice([1, 3, len(held) // width])):
            start = rng.randrange(len(held) // width) * width
            changed[start:start + width] = rng.choice(NUMBERS)[:width]
        tensors[name] = (kind, shape, bytes(changed))
    elif way == 3:
        same = [other for other, bits in WIDTHS.items() if bits == width]
        tensors[name] = (rng.choice(same), shape, held)
    elif way == 4:
        shapes = [[*shape, 1], [1, *shape], shape[::-1], [len(held) // width], [0], []]
        other = rng.choice(shapes)
        count = 1
        for side in other:
            count *= side
        tensors[name] = (kind, other, (held * (1 + count * width // max(1, len(held))))[:count * width])
    elif way == 5 and shape:                                  # more rows, or fewer
        row, rows = len(held) // max(1, shape[0]), rng.choice([0, 1, shape[0] - 1, shape[0] + 1, 1000])
        tensors[name] = (kind, [rows, *shape[1:]], (held + bytes(row) * 1000)[:row * rows])
    elif way == 6:
        tensors[name], other = tensors[rng.choice(sorted(tensors))], tensors[name]
        tensors[rng.choice([name, "x", "shots.maps", "optimizer.0.step"])] = other
    else:
        del tensors[name]


def change_chunk(content: bytes, rng: random.Random) -> bytes:
    """A PNG of which one chunk has other bytes, or comes again or never, under right checksums."""
    chunks, start = [], 8
    while start + 8 <= len(content):
        size = int.from_bytes(content[start:start + 4], "big")
        chunks.append((content[start + 4:start + 8], content[start + 8:start + 8 + size]))
        start += size + 12
    place = rng.randrange(len(chunks))
    name, held = chunks[place]
    if name == b"IDAT" and rng.random() < 0.5:
        held = zlib.compress(changed_bytes(zlib.decompress(held), rng))
    else:
        held = changed_bytes(held, rng)
    chunks[place:place + 1] = rng.choice([[(name, held)], [(name, held)], [(name, held)] * 3, [],
                                          [(rng.choice([b"iCCP", b"eXIf", b"acTL", b"fcTL", b"tRNS", b"PLTE"]), held)]])
    return content[:8] + b"".join(len(held).to_bytes(4, "big") + name + held
                                  + zlib.crc32(name + held).to_bytes(4, "big") for name, held in chunks)


def change_member(content: bytes, rng: random.Random) -> bytes:
    """A tar of which one header says something else, under a right checksum."""
    start = rng.randrange(max(1, len(content) // 512)) * 512
    header = bytearray(content[start:start + 512])
    fields = {"name": (0, 100), "size": (124, 136), "kind": (156, 157), "link": (157, 257), "prefix": (345, 500)}
    first, last = fields[rng.choice(sorted(fields))]
    value = rng.choice([b"../../a.png", b"/a.png", b"77777777777", b"00000000000", b"\x80" + b"\xff" * 11, b"1", b"2",
                        b"5", b"L", b"x", b"g", b"S", b"\xff\xfe.png", b"a" * 100, b""])
    header[first:last] = value[:last - first].ljust(last - first, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return content[:start] + bytes(header) + content[start + 512:]


def changed_bytes(held: bytes, rng: random.Random) -> bytes:
    """Some bytes are others, or there are more or fewer of them."""
    way = rng.randrange(3)
    if way == 0 and held:
        changed = bytearray(held)
        for _ in range(rng.choice([1, 1, 4, 64])):
            changed[rng.randrange(len(held))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        return bytes(changed)
    return held[:rng.randrange(len(held) + 1)] if way == 1 else held + rng.randbytes(rng.choice([1, 30, 5000]))


FORMS: dict[str, tuple[Callable[[bytes], bool], Callable[[bytes, random.Random], bytes]]] = {
    "safetensors": (lambda content: content[8:10] == b'{"', change_tensors),
    "png": (lambda content: content[:8] == b"\x89PNG\r\n\x1a\n", change_chunk),
    "tar": (lambda content: content[257:262] == b"ustar", change_member)}
