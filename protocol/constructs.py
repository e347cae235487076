"""Varints, strings, bytes and arrays as constructs, with bounds.

The constructs are the one description of the bytes. `_parse` and `_build` interpret them: slow, and with the exact
field and position of an error. `protocol.decoder` and `protocol.encoder` generate the fast codec from the same
constructs; tests check the two against each other.

Every length and count is compared with the rest of the frame before anything is allocated: a count by the fewest bytes
that an element has on the wire. The memory that elements take is charged to a budget.

A path is a chain of pairs, `((parent, "topics"), 3)`: cheap to make, and formatted only for an error.
"""

from __future__ import annotations

from typing import Any

from construct import Bytes, Construct, ConstructError, FormatField
from construct.core import stream_read

from protocol.bounds import (
    ARRAY_HEAP,
    BLOB_HEAP,
    NESTED_HEAP,
    SCALAR_HEAP,
    SLOT_HEAP,
    TEXT_BYTES_MAX,
    TEXT_HEAP,
    UUID_HEAP,
    UVARINT_MAX,
    WIDE_HEAP,
    WIDE_HEAP_PER_BYTE,
    budget_of,
)
from protocol.rows import Rows


class MalformedError(ConstructError):
    """Bytes that do not follow the schema, or a value that it cannot hold."""


class Reader:
    """The stream that constructs read from: the bytes of one frame, a position in them, and the frame's budget.

    Only values inside of arrays are charged: the others take little more memory than their bytes.
    """

    __slots__ = ("arrays", "budget", "data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.budget = budget_of(len(data))
        self.arrays = 0  # the depth of nested arrays at the position

    def read(self, count: int) -> bytes:
        """Return at most `count` bytes, as streams do: construct checks how many there are."""
        chunk = self.data[self.position : self.position + count]
        self.position += len(chunk)
        return chunk

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def charge(self, heap: int, path: Any) -> None:
        """Take `heap` bytes of memory from the budget."""
        if self.arrays:
            self.budget -= heap
        if self.budget < 0:
            raise MalformedError("decoding costs more memory than a frame of this size may", path)


class Uvarint(Construct):
    """An unsigned number in groups of seven bits, the lowest first: at most five bytes, at most 2^32 - 1."""

    wire_min = 1

    def _parse(self, stream: Reader, context: Any, path: Any) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > UVARINT_MAX:
                    break
                return value
        raise MalformedError("a varint above 2^32 - 1", path)

    def _build(self, obj: int, stream: Any, context: Any, path: Any) -> int:
        if not 0 <= obj <= UVARINT_MAX:
            raise MalformedError(f"{obj} is not a number from 0 to 2^32 - 1", path)
        stream.write(uvarint(obj))
        return obj


def uvarint(value: int) -> bytes:
    """Return the bytes of an unsigned varint."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


UVARINT = Uvarint()


class CountedArray(Construct):
    """A count, and so many elements or bytes.

    A plain count is signed, and -1 is null. A compact one (KIP-482) is a varint of count + 1, and 0 is null.
    """

    def __init__(self, prefix: Construct, *, nullable: bool) -> None:
        super().__init__()
        self.prefix = prefix
        self.nullable = nullable
        self.compact = prefix is UVARINT
        self.wire_min = wire_min(prefix)

    def read_count(self, stream: Reader, context: Any, path: Any) -> int | None:
        """Read the count, None for null. It is not negative, and not yet compared with the rest of the frame."""
        count: int = self.prefix._parse(stream, context, path) - self.compact
        if count >= 0:
            return count
        if count < -1:
            raise MalformedError(f"a negative count, {count}", path)
        if not self.nullable:
            raise MalformedError("null where the schema allows none", path)
        return None

    def build_count(self, count: int | None, stream: Any, context: Any, path: Any) -> None:
        if count is None and not self.nullable:
            raise MalformedError("null where the schema allows none", path)
        self.prefix._build((-1 if count is None else count) + self.compact, stream, context, path)


class Text(CountedArray):
    """A string: UTF-8, of at most 32,767 bytes."""

    def _parse(self, stream: Reader, context: Any, path: Any) -> str | None:
        count = self.read_count(stream, context, path)
        if count is None:
            return None
        if count > stream.remaining or count > TEXT_BYTES_MAX:
            raise MalformedError(f"a string of {count} bytes where {stream.remaining} are left", path)
        if count:
            stream.charge(TEXT_HEAP + count, path)
        try:
            text = str(stream_read(stream, count, path), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(f"not UTF-8: {error.reason}", path) from None
        if len(text) != count:
            stream.charge(WIDE_HEAP + WIDE_HEAP_PER_BYTE * count, path)
        return text

    def _build(self, obj: str | None, stream: Any, context: Any, path: Any) -> str | None:
        data = None if obj is None else encode_text(obj, path)
        self.build_count(None if data is None else len(data), stream, context, path)
        stream.write(data or b"")
        return obj


def encode_text(obj: Any, path: Any) -> bytes:
    """Encode a string. Raises MalformedError."""
    try:
        data: bytes = obj.encode()
    except (AttributeError, UnicodeEncodeError):
        raise MalformedError(f"{obj!r} cannot be written as a string", path) from None
    if len(data) > TEXT_BYTES_MAX:
        raise MalformedError(f"a string of {len(data)} bytes, more than {TEXT_BYTES_MAX}", path)
    return data


class Blob(CountedArray):
    """Opaque bytes."""

    def _parse(self, stream: Reader, context: Any, path: Any) -> bytes | None:
        count = self.read_count(stream, context, path)
        if count is None:
            return None
        if count > stream.remaining:
            raise MalformedError(f"{count} bytes where {stream.remaining} are left", path)
        if count:
            stream.charge(BLOB_HEAP, path)
        data: bytes = stream_read(stream, count, path)
        return data

    def _build(self, obj: bytes | None, stream: Any, context: Any, path: Any) -> bytes | None:
        if obj is not None and not isinstance(obj, bytes | bytearray | memoryview):
            raise MalformedError(f"{type(obj).__name__} cannot be written as bytes", path)
        self.build_count(None if obj is None else len(obj), stream, context, path)
        stream.write(obj or b"")
        return obj


class ArrayOf(CountedArray):
    """An array as a tuple. With `in_columns`, the fast decoder may return `Rows` instead."""

    heap = NESTED_HEAP

    def __init__(self, element: Construct, prefix: Construct, *, nullable: bool, in_columns: bool = False) -> None:
        super().__init__(prefix, nullable=nullable)
        self.element = element
        self.in_columns = in_columns
        self.element_min = wire_min(element)
        self.element_heap = SLOT_HEAP + heap(element)
        assert self.element_min > 0, f"elements without bytes could be counted without end: {element}"

    def _parse(self, stream: Reader, context: Any, path: Any) -> tuple[Any, ...] | None:
        count = self.read_count(stream, context, path)
        if count is None:
            return None
        if count > stream.remaining // self.element_min:
            raise MalformedError(f"{count} elements where {stream.remaining} bytes are left", path)
        if not count:
            return ()
        stream.arrays += 1
        stream.charge(ARRAY_HEAP + count * self.element_heap, path)
        elements = tuple([self.element._parse(stream, context, (path, index)) for index in range(count)])
        stream.arrays -= 1
        return elements

    def _build(self, obj: tuple[Any, ...] | None, stream: Any, context: Any, path: Any) -> Any:
        if obj is not None and not isinstance(obj, tuple | list | Rows):
            raise MalformedError(f"{type(obj).__name__} cannot be written as an array", path)
        self.build_count(None if obj is None else len(obj), stream, context, path)
        for index, element in enumerate(obj or ()):
            self.element._build(element, stream, context, (path, index))
        return obj


def wire_min(subcon: Construct) -> int:
    """Return the fewest bytes that a value of this construct has on the wire."""
    least: int = subcon.length if isinstance(subcon, FormatField | Bytes) else subcon.wire_min
    return least


def heap(subcon: Construct) -> int:
    """Return the memory that a value takes, in bytes, without the strings, bytes and arrays in it."""
    if isinstance(subcon, FormatField):
        return 0 if subcon.fmtstr == ">?" else SCALAR_HEAP
    return UUID_HEAP if isinstance(subcon, Bytes) else getattr(subcon, "heap", 0)


def format_path(path: Any) -> str:
    """Format a path: `topics[3].name`."""
    steps = []
    while isinstance(path, tuple):
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).lstrip(".")
