"""What generated codecs call where a case is rare: varints of several bytes, tagged fields, values that have no bytes.

A decoder has read the first byte already when it comes here. Positions are indexes into the frame.
"""

from __future__ import annotations

from typing import Any

from protocol import bounds
from protocol.constructs import uvarint

SHORT_UVARINTS = tuple(bytes((value,)) for value in range(128))


def long_uvarint(data: bytes, at: int, value: int) -> tuple[int, int]:
    """Return the rest of a varint whose first byte, above 127, has been read; and the position behind it."""
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
    """Read the length of a string, which has a limit, in the same way."""
    value, at = long_uvarint(data, at, value)
    if value > bounds.TEXT_BYTES_MAX + 1:
        raise ValueError("a string above its limit")
    return value, at


def skip_tags(data: bytes, at: int, count: int) -> int:
    """Go over tagged fields that nobody here knows; `count` is the first byte of their count. The position behind."""
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
    """Return the length of a compact string, which has a limit."""
    if value > bounds.TEXT_BYTES_MAX + 1:
        raise ValueError("a string above its limit")
    return uvarint(value)


def not_uuid(value: Any) -> bytes:
    raise ValueError(f"{value!r} is not a UUID's 16 bytes")
