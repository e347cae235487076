"""Reads a response by hand along kio's classes, for what kio's own reader refuses: a time of -1 where it allows no null.

The layouts are still kio's; only the walk over the bytes is here. Returns plain values, like `wire.plain`.
"""

import struct
import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from tests.conformance.kio_fields import Field, fields_of

NUMBERS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}


class Reader:
    """A place in the bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def entity(self, cls: Any) -> dict[str, Any]:
        """One struct; tagged fields keep their defaults, which is all that the APIs read here need."""
        found = {one.plain: self.field(one, cls.__flexible__) for one in fields_of(cls)}
        if cls.__flexible__:
            for _ in range(self.varint()):
                self.varint()
                self.take(self.varint())
        return found

    def field(self, one: Field, flexible: bool) -> Any:
        if not one.is_array:
            return self.item(one, flexible)
        count = self.length(flexible, "i")
        return None if count < 0 else [self.item(one, flexible) for _ in range(count)]

    def item(self, one: Field, flexible: bool) -> Any:
        if one.nested:
            return self.entity(one.nested)
        if one.kind == "uuid":
            known = uuid.UUID(bytes=self.take(16))
            return str(known) if known.int else None
        if one.kind in NUMBERS:
            number = self.number(NUMBERS[one.kind])
            return ErrorCode(number).name.upper() if one.kind == "error_code" else number
        size = self.length(flexible, "h" if one.kind == "string" else "i")
        found = None if size < 0 else self.take(size)
        return found.decode() if one.kind == "string" and found is not None else found

    def length(self, flexible: bool, code: str) -> int:
        return self.varint() - 1 if flexible else self.number(code)

    def number(self, code: str) -> Any:
        form = struct.Struct(">" + code)
        return form.unpack(self.take(form.size))[0]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise ValueError(f"{size} bytes wanted, {len(found)} left")
        self.at += size
        return found
