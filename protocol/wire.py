"""Kafka's types by the names of its documents. A type becomes a construct once the version says which form it has.

From a message's first flexible version on (KIP-482) strings, bytes and arrays are compact: their lengths are varints.
"""

from __future__ import annotations

from typing import Any, Protocol

from construct import Bytes, Construct, FormatField

from protocol.constructs import UVARINT, ArrayOf, Blob, Text
from protocol.structs import NullableStruct

_INT16 = FormatField(">", "h")
_INT32 = FormatField(">", "l")


class Type(Protocol):
    """What a field holds: one of the types below, or a schema."""

    def at(self, version: int, flexible: bool) -> Construct:
        """Return the construct of this type in one version."""


class Scalar:
    """A type with one form in all versions."""

    def __init__(self, construct: Construct) -> None:
        self._construct = construct

    def at(self, version: int, flexible: bool) -> Construct:
        return self._construct


class SizedType:
    """A string or bytes: a length, then so many bytes. `or_null` is the type that also allows null."""

    def __init__(self, kind: type[Any], prefix: Construct, *, nullable: bool, or_null: SizedType | None = None) -> None:
        self._plain = kind(prefix, nullable=nullable)
        self._compact = kind(UVARINT, nullable=nullable)
        self.or_null = or_null or self

    def at(self, version: int, flexible: bool) -> Construct:
        return self._compact if flexible else self._plain


class Array:
    """Values of one type or schema; a tuple. `NullableArray` allows None as well.

    `in_columns`: structs that are all of one size are read as `Rows`, for handlers that work on columns.
    """

    def __init__(self, of: Type, *, nullable: bool = False, in_columns: bool = False) -> None:
        self.of = of
        self.nullable = nullable
        self.in_columns = in_columns

    @property
    def or_null(self) -> Array:
        return NullableArray(self.of)

    def at(self, version: int, flexible: bool) -> Construct:
        return ArrayOf(
            self.of.at(version, flexible),
            UVARINT if flexible else _INT32,
            nullable=self.nullable,
            in_columns=self.in_columns,
        )


class NullableArray(Array):
    """An array, or None."""

    def __init__(self, of: Type) -> None:
        super().__init__(of, nullable=True)


class Nullable:
    """A struct, or None: a byte says which."""

    def __init__(self, of: Type, *, tagged: bool = False) -> None:
        self.of = of
        self.tagged = tagged

    @property
    def as_tagged(self) -> Nullable:
        """The form inside a tagged field, where Kafka writes null as 0 and not as -1."""
        return Nullable(self.of, tagged=True)

    def at(self, version: int, flexible: bool) -> Construct:
        return NullableStruct(self.of.at(version, flexible), tagged=self.tagged)


BOOLEAN = Scalar(FormatField(">", "?"))
INT8 = Scalar(FormatField(">", "b"))
INT16 = Scalar(_INT16)
INT32 = Scalar(_INT32)
INT64 = Scalar(FormatField(">", "q"))
UINT16 = Scalar(FormatField(">", "H"))
UINT32 = Scalar(FormatField(">", "L"))
FLOAT64 = Scalar(FormatField(">", "d"))
UUID = Scalar(Bytes(16))
ZERO_UUID = bytes(16)  # Kafka's word for no id
NULLABLE_STRING = SizedType(Text, _INT16, nullable=True)
STRING = SizedType(Text, _INT16, nullable=False, or_null=NULLABLE_STRING)
NULLABLE_BYTES = SizedType(Blob, _INT32, nullable=True)
BYTES = SizedType(Blob, _INT32, nullable=False, or_null=NULLABLE_BYTES)
RECORDS = NULLABLE_BYTES  # record batches, which `protocol.record_batch` reads
PLAIN_NULLABLE_STRING = Scalar(Text(_INT16, nullable=True))  # the header's client id, which is never compact
