"""Where a frame's lengths and counts lie, and the numbers that hostile clients put there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import pack
from typing import Any

import msgspec
from construct import Bytes, Construct, FormatField

from protocol import constructs
from protocol.constructs import ArrayOf, Blob, CountedArray, Text, Uvarint, uvarint
from protocol.structs import NullableStruct, StructOf, TagSection
from tests.protocol.targets import Target

TOO_LONG_VARINTS = (b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 10 + b"\x01")


class Length(msgspec.Struct, frozen=True):
    """A length or count in a frame: at bytes `start` to `end`, before so many bytes."""

    start: int
    end: int
    path: str
    varint: bool
    nullable: bool
    smallest: int  # bytes of one element, 1 for strings and bytes
    more: int  # a varint counts one more than there is, except for tagged fields


def filled(subcon: Construct) -> Any:
    """A value in which everything is there: no null, no empty array or string, no tagged field at its default."""
    if isinstance(subcon, FormatField):
        return True if subcon.fmtstr == ">?" else 2
    if isinstance(subcon, Bytes):
        return b"u" * 16
    if isinstance(subcon, Text):
        return "ab"
    if isinstance(subcon, Blob):
        return b"ab"
    if isinstance(subcon, ArrayOf):
        return (filled(subcon.element),)
    if isinstance(subcon, NullableStruct):
        return filled(subcon.subcon)
    assert isinstance(subcon, StructOf)
    values: dict[str, Any] = {}
    for name, member in subcon.members:
        if isinstance(member, TagSection):
            values |= {field.name: filled(field.subcon) for field in member.fields}
        else:
            values[name] = filled(member)
    return subcon.cls(**values)


@contextmanager
def noted(lengths: list[Length]) -> Iterator[None]:
    """While construct reads, note where it finds lengths and counts."""
    count, varint, section, value = CountedArray.read_count, Uvarint._parse, TagSection._parse, TagSection._value
    next_is_length = False  # of the varints in tagged fields, the first and that before a value; not the tags

    def noted_count(self: CountedArray, stream: Any, context: Any, path: Any) -> int | None:
        start = stream.position
        found = count(self, stream, context, path)
        smallest = self.element_min if isinstance(self, ArrayOf) else 1
        where = constructs.format_path(path)
        lengths.append(Length(start, stream.position, where, self.compact, self.nullable, smallest, int(self.compact)))
        return found

    def noted_varint(self: Uvarint, stream: Any, context: Any, path: Any) -> int:
        nonlocal next_is_length
        start = stream.position
        found = varint(self, stream, context, path)
        if next_is_length:
            lengths.append(Length(start, stream.position, constructs.format_path(path), True, True, 1, 0))
        next_is_length = False
        return found

    def noted_section(self: TagSection, stream: Any, context: Any, path: Any) -> Any:
        nonlocal next_is_length
        next_is_length = True
        return section(self, stream, context, path)

    def noted_value(self: TagSection, field: Any, stream: Any, context: Any, path: Any) -> Any:
        nonlocal next_is_length
        next_is_length = True
        return value(self, field, stream, context, path)

    CountedArray.read_count, Uvarint._parse = noted_count, noted_varint
    TagSection._parse, TagSection._value = noted_section, noted_value
    try:
        yield
    finally:
        CountedArray.read_count, Uvarint._parse = count, varint
        TagSection._parse, TagSection._value = section, value


def cases(target: Target) -> Iterator[tuple[str, bytes]]:
    """Frames in which one length or count is a lie, each with the path of that field."""
    frame = target.encode(filled(target.body))
    lengths: list[Length] = []
    with noted(lengths):
        target.parse(frame)
    for length in lengths:
        for lie in lies(length, len(frame) - length.end):
            yield length.path, frame[: length.start] + lie + frame[length.end :]


def lies(length: Length, remaining: int) -> Iterator[bytes]:
    """What cannot be true of a length with so many bytes behind it."""
    too_many = remaining // length.smallest + 1
    if length.varint:
        yield from TOO_LONG_VARINTS
        for number in (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, too_many + length.more):
            yield uvarint(number)
        if not length.nullable:
            yield uvarint(0)
        return
    bits = 8 * (length.end - length.start)
    layout = ">h" if bits == 16 else ">l"
    for number in (2 ** (bits - 1) - 1, -2, -(2 ** (bits - 1)), too_many):
        yield pack(layout, number)
    if not length.nullable:
        yield pack(layout, -1)
