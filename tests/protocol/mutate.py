"""Bytes made wrong, the way broken clients and hostile ones make them."""

from __future__ import annotations

from random import Random

NUMBERS = (
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\0",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\0\0\0",
)


def mutated(data: bytes, random: Random) -> bytes:
    """`data` with one to three changes."""
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out) + 1)
        kind = random.randrange(6)
        if kind == 0:
            del out[at : at + random.randint(1, 4)]
        elif kind == 1:
            out[at:at] = random.randbytes(random.randint(1, 4))
        elif kind == 2:
            number = random.choice(NUMBERS)
            out[at : at + len(number)] = number
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            end = min(len(out), at + random.randint(1, 40))
            out[at:at] = out[at:end]
        elif at < len(out):
            out[at] ^= 1 << random.randrange(8)
    return bytes(out)
