"""Functions that generated codecs call in rare cases: long varints, unknown tagged fields, values of the wrong type.

A decoder has read the first byte already when it calls one. Positions are indexes into the frame.
"""

from __future__ import annotations

from typing import Any

from protocol import bounds
from protocol.constructs import uvarint

SHORT_UVARINTS = tuple(bytes((value,)) for value in range(128))


def long_uvarint(data: bytes, at: int, value: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte was `value`, above 127. Return the number and the position behind."""
    value &= 0x7F
    for shift in range(7, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > bounds.UVARINT_MAX:
                break
            return value, at
    raise ValueError("a varint above 2^32 - 1")


def long_text(data: bytes, at: int, value: int) -> tuple[int, int]:
    """Read the length of a string in the same way, and compare it with the limit."""
    value, at = long_uvarint(data, at, value)
    if value > bounds.TEXT_BYTES_MAX + 1:
        raise ValueError("a string above its limit")
    return value, at


def skip_tags(data: bytes, at: int, count: int) -> int:
    """Skip unknown tagged fields. `count` is the first byte of their count. Return the position behind them."""
    if count > 127:
        count, at = long_uvarint(data, at, count)
    if count > bounds.TAGS_MAX:
        raise ValueError("too many tagged fields")
    previous = -1
    for _ in range(count):
        tag, at = _uvarint(data, at)
        size, at = _uvarint(data, at)
        if tag <= previous:
            raise ValueError("tags not ascending")
        previous = tag
        at += size
    return at


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    return (first, at + 1) if first < 0x80 else long_uvarint(data, at + 1, first)


def text_uvarint(value: int) -> bytes:
    """Encode the length of a compact string. Raises ValueError above the limit."""
    if value > bounds.TEXT_BYTES_MAX + 1:
        raise ValueError("a string above its limit")
    return uvarint(value)


def not_uuid(value: Any) -> bytes:
    """Raise ValueError for a value that is not a UUID."""
    raise ValueError(f"{value!r} is not a UUID's 16 bytes")
