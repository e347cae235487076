"""What a message is made of, as constructs: each reads and writes itself, bounded, for one version.

This is the one description of the bytes. `_parse` and `_build` are its plain interpretation: slow, and exact about
where it stops. `protocol.compile` walks the same objects and writes the fast codec; the two are checked against each
other.

Bounds before buffers: a length or a count is compared with what is left in the frame before anything is made, a count
with the fewest bytes an element can have on the wire, and what elements cost in memory is charged to a budget.

A path is a chain of pairs, `((parent, "topics"), 3)`: cheap to make and only written out when something goes wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from construct import Bytes, Construct, ConstructError, FormatField
from construct.core import stream_read

BUDGET_FLOOR = 1 << 20  # bytes of memory that any frame may cost, however short it is
BUDGET_CEILING = 48 << 20  # and that no frame may, however long it is
BUDGET_RATIO = 15  # between them: so many times the frame's bytes; with the frame's own bytes copied, at most 16

SCALAR_HEAP = 32  # an int or a float
UUID_HEAP = 64  # 16 bytes as an object
TEXT_HEAP, TEXT_HEAP_PER_BYTE = 80, 4  # a str; one wide character makes each of its characters take four bytes
BLOB_HEAP = 48  # bytes, beside their content, which is the frame's own size at most
ARRAY_HEAP, SLOT_HEAP = 96, 16  # a list and the tuple made of it; an entry in each

TEXT_BYTES_MAX = 0x7FFF  # Kafka's own limit, of compact strings as well
TAGS_MAX = 1024  # in one section; Kafka's messages define fewer than ten
UVARINT_MAX = 0xFFFFFFFF


class Malformed(ConstructError):  # type: ignore[misc]  # noqa: N818 - construct ships no types; named for what it says
    """Bytes that no writer of this schema can have written."""


class Reader:
    """The stream that constructs read from: the bytes of one frame, a position in them, and the frame's budget.

    Only what is inside an array is charged: what a schema names once costs little more than its bytes.
    """

    __slots__ = ("arrays", "budget", "data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.budget = budget_of(len(data))
        self.arrays = 0  # how many arrays we are inside of

    def read(self, count: int) -> bytes:
        """At most `count` bytes, as streams do: construct compares what it got."""
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
            raise Malformed("decoding costs more memory than a frame of this size may", path)


def budget_of(frame_bytes: int) -> int:
    """How many bytes of memory the values read from so long a frame may cost."""
    return min(max(BUDGET_FLOOR, BUDGET_RATIO * frame_bytes), BUDGET_CEILING)


class Uvarint(Construct):  # type: ignore[misc]
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
        raise Malformed("a varint above 2^32 - 1", path)

    def _build(self, obj: int, stream: Any, context: Any, path: Any) -> int:
        if not 0 <= obj <= UVARINT_MAX:
            raise Malformed(f"{obj} is not a number from 0 to 2^32 - 1", path)
        stream.write(uvarint(obj))
        return obj


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


UVARINT = Uvarint()


class Counted(Construct):  # type: ignore[misc]
    """A count, then so much. Plain: signed, -1 for null. Compact (KIP-482): a varint of count + 1, 0 for null."""

    def __init__(self, prefix: Construct, *, nullable: bool) -> None:
        super().__init__()
        self.prefix = prefix
        self.nullable = nullable
        self.compact = prefix is UVARINT
        self.wire_min = wire_min(prefix)

    def count(self, stream: Reader, context: Any, path: Any) -> int | None:
        """What the prefix says, None for null; never negative, not yet compared with what is left."""
        count: int = self.prefix._parse(stream, context, path) - self.compact
        if count >= 0:
            return count
        if count < -1:
            raise Malformed(f"a negative count, {count}", path)
        if not self.nullable:
            raise Malformed("null where the schema allows none", path)
        return None

    def build_count(self, count: int | None, stream: Any, context: Any, path: Any) -> None:
        if count is None and not self.nullable:
            raise Malformed("null where the schema allows none", path)
        self.prefix._build((-1 if count is None else count) + self.compact, stream, context, path)


class Text(Counted):
    """A string: UTF-8, of at most 32,767 bytes."""

    def _parse(self, stream: Reader, context: Any, path: Any) -> str | None:
        count = self.count(stream, context, path)
        if count is None:
            return None
        if count > stream.remaining or count > TEXT_BYTES_MAX:
            raise Malformed(f"a string of {count} bytes where {stream.remaining} are left", path)
        if count:
            stream.charge(TEXT_HEAP + TEXT_HEAP_PER_BYTE * count, path)
        try:
            return str(stream_read(stream, count, path), "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"not UTF-8: {error.reason}", path) from None

    def _build(self, obj: str | None, stream: Any, context: Any, path: Any) -> str | None:
        data = None if obj is None else text_bytes(obj, path)
        self.build_count(None if data is None else len(data), stream, context, path)
        stream.write(data or b"")
        return obj


def text_bytes(obj: Any, path: Any) -> bytes:
    """A string as the wire has it, or `Malformed`."""
    try:
        data: bytes = obj.encode()
    except (AttributeError, UnicodeEncodeError):
        raise Malformed(f"{obj!r} cannot be written as a string", path) from None
    if len(data) > TEXT_BYTES_MAX:
        raise Malformed(f"a string of {len(data)} bytes, more than {TEXT_BYTES_MAX}", path)
    return data


class Blob(Counted):
    """Bytes that mean something to somebody else."""

    def _parse(self, stream: Reader, context: Any, path: Any) -> bytes | None:
        count = self.count(stream, context, path)
        if count is None:
            return None
        if count > stream.remaining:
            raise Malformed(f"{count} bytes where {stream.remaining} are left", path)
        if count:
            stream.charge(BLOB_HEAP, path)
        data: bytes = stream_read(stream, count, path)
        return data

    def _build(self, obj: bytes | None, stream: Any, context: Any, path: Any) -> bytes | None:
        if obj is not None and not isinstance(obj, bytes | bytearray | memoryview):
            raise Malformed(f"{type(obj).__name__} cannot be written as bytes", path)
        self.build_count(None if obj is None else len(obj), stream, context, path)
        stream.write(obj or b"")
        return obj


class ArrayOf(Counted):
    """So many elements of one kind, as a tuple."""

    def __init__(self, element: Construct, prefix: Construct, *, nullable: bool) -> None:
        super().__init__(prefix, nullable=nullable)
        self.element = element
        self.element_min = wire_min(element)
        self.element_heap = SLOT_HEAP + heap(element)
        assert self.element_min > 0, f"elements without bytes could be counted without end: {element}"

    def _parse(self, stream: Reader, context: Any, path: Any) -> tuple[Any, ...] | None:
        count = self.count(stream, context, path)
        if count is None:
            return None
        if count > stream.remaining // self.element_min:
            raise Malformed(f"{count} elements where {stream.remaining} bytes are left", path)
        if not count:
            return ()
        stream.arrays += 1
        stream.charge(ARRAY_HEAP + count * self.element_heap, path)
        elements = tuple([self.element._parse(stream, context, (path, index)) for index in range(count)])
        stream.arrays -= 1
        return elements

    def _build(self, obj: tuple[Any, ...] | None, stream: Any, context: Any, path: Any) -> Any:
        if obj is not None and not isinstance(obj, tuple | list):
            raise Malformed(f"{type(obj).__name__} cannot be written as an array", path)
        self.build_count(None if obj is None else len(obj), stream, context, path)
        for index, element in enumerate(obj or ()):
            self.element._build(element, stream, context, (path, index))
        return obj


class Tagged:
    """One tagged field: on the wire only where it differs from its default."""

    def __init__(self, tag: int, name: str, subcon: Construct, default: Any) -> None:
        self.tag = tag
        self.name = name
        self.subcon = subcon
        self.default = default


class TagSection(Construct):  # type: ignore[misc]
    """The tagged fields at the end of a struct (KIP-482): count, then tag, size, value of each, the tags ascending.

    Those that nobody here knows are skipped by their size and not kept.
    """

    wire_min = 1

    def __init__(self, fields: Iterable[Tagged] = ()) -> None:
        super().__init__()
        self.fields = tuple(sorted(fields, key=lambda field: field.tag))
        self.by_tag = {field.tag: field for field in self.fields}

    def _parse(self, stream: Reader, context: Any, path: Any) -> dict[str, Any]:
        count = UVARINT._parse(stream, context, (path, "tags"))
        if count > TAGS_MAX or count > stream.remaining // 2:
            raise Malformed(f"{count} tagged fields where {stream.remaining} bytes are left", (path, "tags"))
        values = {}
        previous = -1
        for _ in range(count):
            tag = UVARINT._parse(stream, context, (path, "tags"))
            if tag <= previous:
                raise Malformed(f"tag {tag} behind tag {previous}", (path, "tags"))
            previous = tag
            if field := self.by_tag.get(tag):
                values[field.name] = self._value(field, stream, context, (path, field.name))
            else:
                self._skip(stream, context, (path, "tags"))
        return values

    def _value(self, field: Tagged, stream: Reader, context: Any, path: Any) -> Any:
        size = UVARINT._parse(stream, context, path)
        end = stream.position + size
        value = field.subcon._parse(stream, context, path)
        if stream.position != end:
            raise Malformed(f"a tagged field of {size} bytes is not as long as its value", path)
        return value

    def _skip(self, stream: Reader, context: Any, path: Any) -> None:
        size = UVARINT._parse(stream, context, path)
        if size > stream.remaining:
            raise Malformed(f"a tagged field of {size} bytes where {stream.remaining} are left", path)
        stream.position += size

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        present = [(field, getattr(obj, field.name)) for field in self.fields]
        present = [(field, value) for field, value in present if value != field.default]
        UVARINT._build(len(present), stream, context, path)
        for field, value in present:
            data = Rooted(field.subcon, (path, field.name)).build(value)
            stream.write(uvarint(field.tag) + uvarint(len(data)) + data)
        return obj


class Rooted(Construct):  # type: ignore[misc]
    """A construct whose path begins where another's ended."""

    def __init__(self, subcon: Construct, path: Any) -> None:
        super().__init__()
        self.subcon = subcon
        self.path = path

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        return self.subcon._build(obj, stream, context, self.path)


class StructOf(Construct):  # type: ignore[misc]
    """The fields of a message in the order of the wire, read into an object of `cls`.

    A member is a name with its construct, or "" with a `TagSection`, whose fields are the message's own. A field of
    `cls` without a member keeps its default.
    """

    def __init__(self, cls: type[Any], members: Iterable[tuple[str, Construct]]) -> None:
        super().__init__()
        self.cls = cls
        self.members = tuple(members)
        self.wire_min = sum(wire_min(subcon) for _, subcon in self.members)
        self.heap = 16 + 8 * len(cls.__struct_fields__) + 15 & ~15
        self.heap += sum(heap(subcon) for _, subcon in self.members)
        self.is_fixed = all(isinstance(subcon, FormatField | Bytes | TagSection) for _, subcon in self.members)

    def _parse(self, stream: Reader, context: Any, path: Any) -> Any:
        values: dict[str, Any] = {}
        for name, subcon in self.members:
            if name:
                values[name] = subcon._parse(stream, context, (path, name))
            else:
                values.update(subcon._parse(stream, context, path))
        return self.cls(**values)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        if not isinstance(obj, self.cls):
            raise Malformed(f"{obj!r} where {self.cls.__name__} is wanted", path)
        for name, subcon in self.members:
            if name:
                subcon._build(getattr(obj, name), stream, context, (path, name))
            else:
                subcon._build(obj, stream, context, path)
        return obj


class NullableStruct(Construct):  # type: ignore[misc]
    """A byte that says whether a struct follows: 1, or null: -1, and 0 where the whole is a tagged field."""

    wire_min = 1

    def __init__(self, subcon: Construct, *, tagged: bool) -> None:
        super().__init__()
        self.subcon = subcon
        self.null = 0 if tagged else -1
        self.heap = heap(subcon)

    def _parse(self, stream: Reader, context: Any, path: Any) -> Any:
        (present,) = struct.unpack("b", stream_read(stream, 1, path))
        if present == 1:
            return self.subcon._parse(stream, context, path)
        if present != self.null:
            raise Malformed(f"{present} is neither a struct to follow (1) nor null ({self.null})", path)
        return None

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        stream.write(struct.pack("b", self.null if obj is None else 1))
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj


def wire_min(subcon: Construct) -> int:
    """The fewest bytes that a value of this construct has on the wire."""
    return subcon.length if isinstance(subcon, FormatField | Bytes) else subcon.wire_min  # type: ignore[no-any-return]


def heap(subcon: Construct) -> int:
    """The memory a value costs, in bytes, before what its strings, bytes and arrays charge for themselves."""
    if isinstance(subcon, FormatField):
        return SCALAR_HEAP
    return UUID_HEAP if isinstance(subcon, Bytes) else getattr(subcon, "heap", 0)


def dotted(path: Any) -> str:
    """A chain of pairs as people write it: `topics[3].name`."""
    steps = []
    while isinstance(path, tuple):
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).lstrip(".")


def subconstructs(root: Construct) -> Iterator[Construct]:
    """The construct and all that it is made of."""
    yield root
    if isinstance(root, StructOf):
        for _, subcon in root.members:
            yield from subconstructs(subcon)
    elif isinstance(root, TagSection):
        for field in root.fields:
            yield from subconstructs(field.subcon)
    elif isinstance(root, ArrayOf):
        yield from subconstructs(root.element)
    elif isinstance(root, NullableStruct):
        yield from subconstructs(root.subcon)
