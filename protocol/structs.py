"""Messages as constructs: the fields of a struct, its tagged fields, and a byte that says whether a struct is there."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from construct import Bytes, Construct, FormatField
from construct.core import stream_read

from protocol.bounds import TAGS_MAX
from protocol.constructs import UVARINT, ArrayOf, MalformedError, Reader, heap, uvarint, wire_min


class TaggedField:
    """One tagged field: on the wire only where it differs from its default."""

    def __init__(self, tag: int, name: str, subcon: Construct, default: Any) -> None:
        self.tag = tag
        self.name = name
        self.subcon = subcon
        self.default = default


class TagSection(Construct):
    """The tagged fields at the end of a struct (KIP-482): count, then tag, size, value of each, the tags ascending.

    Those that nobody here knows are skipped by their size and not kept.
    """

    wire_min = 1

    def __init__(self, fields: Iterable[TaggedField] = ()) -> None:
        super().__init__()
        self.fields = tuple(sorted(fields, key=lambda field: field.tag))
        self.by_tag = {field.tag: field for field in self.fields}

    def _parse(self, stream: Reader, context: Any, path: Any) -> dict[str, Any]:
        count = UVARINT._parse(stream, context, (path, "tags"))
        if count > TAGS_MAX or count > stream.remaining // 2:
            raise MalformedError(f"{count} tagged fields where {stream.remaining} bytes are left", (path, "tags"))
        values = {}
        previous = -1
        for _ in range(count):
            tag = UVARINT._parse(stream, context, (path, "tags"))
            if tag <= previous:
                raise MalformedError(f"tag {tag} behind tag {previous}", (path, "tags"))
            previous = tag
            if field := self.by_tag.get(tag):
                values[field.name] = self._value(field, stream, context, (path, field.name))
            else:
                self._skip(stream, context, (path, "tags"))
        return values

    def _value(self, field: TaggedField, stream: Reader, context: Any, path: Any) -> Any:
        size = UVARINT._parse(stream, context, path)
        end = stream.position + size
        value = field.subcon._parse(stream, context, path)
        if stream.position != end:
            raise MalformedError(f"a tagged field of {size} bytes is not as long as its value", path)
        return value

    def _skip(self, stream: Reader, context: Any, path: Any) -> None:
        size = UVARINT._parse(stream, context, path)
        if size > stream.remaining:
            raise MalformedError(f"a tagged field of {size} bytes where {stream.remaining} are left", path)
        stream.position += size

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        present = [(field, getattr(obj, field.name)) for field in self.fields]
        present = [(field, value) for field, value in present if value != field.default]
        UVARINT._build(len(present), stream, context, path)
        for field, value in present:
            data = RootedConstruct(field.subcon, (path, field.name)).build(value)
            stream.write(uvarint(field.tag) + uvarint(len(data)) + data)
        return obj


class RootedConstruct(Construct):
    """A construct whose path begins where another's ended."""

    def __init__(self, subcon: Construct, path: Any) -> None:
        super().__init__()
        self.subcon = subcon
        self.path = path

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        return self.subcon._build(obj, stream, context, self.path)


class StructOf(Construct):
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
            raise MalformedError(f"{obj!r} where {self.cls.__name__} is wanted", path)
        for name, subcon in self.members:
            if name:
                subcon._build(getattr(obj, name), stream, context, (path, name))
            else:
                subcon._build(obj, stream, context, path)
        return obj


class NullableStruct(Construct):
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
            raise MalformedError(f"{present} is neither a struct to follow (1) nor null ({self.null})", path)
        return None

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        stream.write(struct.pack("b", self.null if obj is None else 1))
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj


def subconstructs(root: Construct) -> Iterator[Construct]:
    """Yield the construct and all that it is made of."""
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
