"""Types and schemas by themselves: each form on the wire, drawn in bytes, by both codecs."""

from __future__ import annotations

from typing import Any

import pytest
from construct import ConstructError
from hypothesis import given

from protocol import interpret
from protocol.codec import read, write
from protocol.constructs import UVARINT, ArrayOf, Reader, uvarint
from protocol.errors import ProtocolError
from protocol.schema import Field, Message, Schema
from protocol.slow_paths import long_uvarint
from protocol.structs import StructOf
from protocol.wire import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Array,
    Nullable,
    NullableArray,
)
from tests.protocol.settings import SETTINGS
from tests.protocol.values import CHOICES, Choices, message_of


class Point(Message):
    x: int = 0
    y: int = 0


class Named(Message):
    point: Point = Point()
    name: str = ""
    late: int = 7


class Everything(Message):
    value: Any = None
    other: Any = 0


POINT = Schema(Point, (Field("x", INT8), Field("y", INT8)))
NAMED = Schema(Named, (Field("point", POINT), Field("name", STRING), Field("late", INT16, since=1, until=2)))
U = b"u" * 16

FORMS = [
    # type            value             plain                          compact
    (BOOLEAN, True, "01", "01"),
    (INT8, -2, "fe", "fe"),
    (INT16, -2, "fffe", "fffe"),
    (INT32, 258, "00000102", "00000102"),
    (INT64, -1, "ffffffffffffffff", "ffffffffffffffff"),
    (UINT16, 65535, "ffff", "ffff"),
    (UINT32, 2**32 - 1, "ffffffff", "ffffffff"),
    (FLOAT64, 1.5, "3ff8000000000000", "3ff8000000000000"),
    (UUID, U, "75" * 16, "75" * 16),
    (STRING, "é", "0002c3a9", "03c3a9"),
    (STRING, "", "0000", "01"),
    (NULLABLE_STRING, None, "ffff", "00"),
    (BYTES, b"\0\1", "000000020001", "030001"),
    (NULLABLE_BYTES, None, "ffffffff", "00"),
    (RECORDS, b"", "00000000", "01"),
    (Array(INT32), (1, 2), "000000020000000100000002", "030000000100000002"),
    (Array(INT32), (), "00000000", "01"),
    (Array(UUID), (U, U), "00000002" + "75" * 32, "03" + "75" * 32),
    (Array(STRING), ("a",), "00000001000161", "020261"),
    (NullableArray(INT8), None, "ffffffff", "00"),
    (NullableArray(POINT), (Point(1, 2),), "000000010102", "02010200"),
    (Nullable(POINT), Point(1, 2), "010102", "01010200"),
    (Nullable(POINT), None, "ff", "ff"),
    (POINT, Point(1, 2), "0102", "010200"),
]


@pytest.mark.parametrize(("kind", "value", "plain", "compact"), FORMS)
def test_r13_each_type_has_kafkas_bytes_plain_and_compact(kind: Any, value: Any, plain: str, compact: str) -> None:
    schema = Schema(Everything, (Field("value", kind),))
    for flexible, wire in ((False, plain), (True, compact + "00")):
        message, data = Everything(value), bytes.fromhex(wire)
        assert write(schema, message, 0, flexible=flexible) == data
        assert interpret.build(schema.at(0, flexible), message) == data
        assert read(schema, data, 0, flexible=flexible) == message
        assert interpret.parse(schema.at(0, flexible), data) == message


@pytest.mark.parametrize(("kind", "value", "plain", "compact"), FORMS)
def test_r13_each_type_as_a_tagged_field(kind: Any, value: Any, plain: str, compact: str) -> None:
    """Tag 300, so that the tag itself takes two bytes. Null as a struct is 0 there, and -1 elsewhere."""
    schema = Schema(Everything, (Field("value", kind, tag=300), Field("other", INT8)))
    wire = bytes.fromhex(compact)
    data = b"\5" + (b"\1\xac\2" + uvarint(len(wire)) + wire if value is not None else b"\0")
    assert write(schema, Everything(value, 5), 0, flexible=True) == data
    assert interpret.build(schema.at(0, True), Everything(value, 5)) == data
    assert read(schema, data, 0, flexible=True) == Everything(value, 5)
    assert interpret.parse(schema.at(0, True), data) == Everything(value, 5)
    assert write(schema, Everything(value, 5), 0) == b"\5", "a version without tags has none of them"


class Tagged(Message):
    point: Point | None = Point(9, 9)


def test_a_null_struct_in_a_tagged_field_is_0_where_the_default_is_another() -> None:
    schema = Schema(Tagged, (Field("point", POINT, tag=0, nullable_since=1),))
    assert write(schema, Tagged(None), 1, flexible=True) == b"\1\0\1\0"
    assert read(schema, b"\1\0\1\0", 1, flexible=True) == Tagged(None)
    assert read(schema, b"\0", 1, flexible=True) == Tagged(Point(9, 9))
    with pytest.raises(ProtocolError, match=r"-1 is neither a struct to follow \(1\) nor null \(0\) in point"):
        read(schema, b"\1\0\1\xff", 1, flexible=True)


def test_a_tagged_field_is_as_long_as_it_says() -> None:
    schema = Schema(Everything, (Field("value", INT16, tag=0),))
    for size in (0, 1, 3):
        with pytest.raises(ProtocolError, match=f"a tagged field of {size} bytes is not as long as its value in value"):
            read(schema, b"\1\0" + bytes((size,)) + b"\0\1" + b"\0" * 5, 0, flexible=True)


def test_a_field_is_in_the_versions_it_names_and_has_its_default_in_others() -> None:
    message = Named(Point(1, 2), "n", 3)
    assert write(NAMED, message, 0) == write(NAMED, message, 3) == b"\1\2\0\1n"
    assert write(NAMED, message, 1) == write(NAMED, message, 2) == b"\1\2\0\1n\0\3"
    assert read(NAMED, b"\1\2\0\1n", 0) == Named(Point(1, 2), "n", 7)


def test_null_is_allowed_from_the_version_that_a_field_names() -> None:
    for kind, wire in ((STRING, b"\xff\xff"), (BYTES, b"\xff" * 4), (Array(INT8), b"\xff" * 4), (POINT, b"\xff")):
        schema = Schema(Everything, (Field("value", kind, nullable_since=2),))
        assert read(schema, wire, 2) == Everything(None)
        assert write(schema, Everything(None), 2) == wire
        with pytest.raises(ProtocolError):
            read(schema, wire, 1)
        with pytest.raises(ProtocolError):
            write(schema, Everything(None), 1)


class Backwards(Message):
    """Fields in another order than on the wire."""

    second: int = 0
    absent: str = "here"
    first: int = 0


@pytest.mark.parametrize("flexible", [False, True])
def test_fields_find_their_places_whatever_the_order_of_the_class(flexible: bool) -> None:
    inner = Schema(Backwards, (Field("first", INT8), Field("second", INT8)))
    schema = Schema(Everything, (Field("value", Array(inner)), Field("other", inner)))
    message = Everything((Backwards(2, "here", 1),) * 3, Backwards(4, "here", 3))
    data = write(schema, message, 0, flexible=flexible)
    assert read(schema, data, 0, flexible=flexible) == interpret.parse(schema.at(0, flexible), data) == message


def test_elements_of_one_size_with_tags_that_nobody_knows() -> None:
    schema = Schema(Everything, (Field("value", Array(POINT)),))
    data = b"\4" + b"\1\2\0" + b"\3\4\1\5\1x" + b"\5\6\0" + b"\0"
    expected = Everything((Point(1, 2), Point(3, 4), Point(5, 6)))
    assert read(schema, data, 0, flexible=True) == interpret.parse(schema.at(0, True), data) == expected


@pytest.mark.parametrize("flexible", [False, True])
def test_r13_a_message_of_all_types_at_once(flexible: bool) -> None:
    fields = [f"f{index}" for index in range(len(FORMS))]
    namespace = {"__annotations__": dict.fromkeys(fields, Any), **dict.fromkeys(fields)}
    cls = type("AllTypes", (Message,), namespace)
    schema = Schema(cls, tuple(Field(name, kind) for name, (kind, *_) in zip(fields, FORMS, strict=True)))
    both = Schema(Everything, (Field("value", Array(schema)), Field("other", INT8)))

    @SETTINGS
    @given(CHOICES)
    def property(data: bytes) -> None:
        message = message_of(both.at(0, flexible), Choices(data))
        wire = write(both, message, 0, flexible=flexible)
        assert wire == interpret.build(both.at(0, flexible), message)
        assert read(both, wire, 0, flexible=flexible) == interpret.parse(both.at(0, flexible), wire) == message

    property()


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (UUID, b"short", "in value"),
        (Array(UUID), (U, b"short"), r"in value\[1\]"),
        (BYTES, "text", "str cannot be written as bytes in value"),
        (Array(POINT), (Point(1, 1), Point(1, 200)), r"in value\[1\].y"),
        (Array(INT8), 5, "in value"),
        (Nullable(POINT), 5, "5 where Point is wanted in value"),
    ],
)
def test_values_without_bytes_are_refused_by_name(kind: Any, value: Any, reason: str) -> None:
    for field in (Field("value", kind), Field("value", kind, tag=1)):
        with pytest.raises(ProtocolError, match=f"Everything v0: .*{reason}"):
            write(Schema(Everything, (field,)), Everything(value), 0, flexible=True)


def test_anything_with_bytes_can_be_written_as_bytes() -> None:
    schema = Schema(Everything, (Field("value", BYTES),))
    for value in (bytearray(b"xy"), memoryview(b"xy")):
        assert write(schema, Everything(value), 0, flexible=True) == b"\3xy\0"
        assert interpret.build(schema.at(0, True), Everything(value)) == b"\3xy\0"


@pytest.mark.parametrize(
    ("value", "wire"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_r14_varints(value: int, wire: str) -> None:
    data = bytes.fromhex(wire)
    assert uvarint(value) == UVARINT.build(value) == data
    assert interpret.parse(UVARINT, data) == value
    if value > 127:
        assert long_uvarint(data, 1, data[0]) == (value, len(data))


@pytest.mark.parametrize("wire", ["ffffffff10", "ffffffffff01", "8080808080808000"])
def test_r14_varints_of_more_than_32_bits_are_refused(wire: str) -> None:
    data = bytes.fromhex(wire)
    with pytest.raises(ProtocolError, match="a varint above"):
        interpret.parse(UVARINT, data)
    with pytest.raises(ValueError, match="a varint above"):
        long_uvarint(data, 1, data[0])


@pytest.mark.parametrize(
    ("kind", "flexible", "wire"),
    [
        (STRING, True, "828002" + "61" * 32769),  # one byte more than a string may have
        (BYTES, False, "fffffffe"),
        (BYTES, False, "00000003" + "6161"),
        (BYTES, True, "04" + "6161"),
    ],
)
def test_r14_lengths_that_lie_are_refused_by_both_codecs(kind: Any, flexible: bool, wire: str) -> None:
    schema = Schema(Everything, (Field("value", kind),))
    with pytest.raises(ProtocolError):
        interpret.parse(schema.at(0, flexible), bytes.fromhex(wire))
    with pytest.raises(ProtocolError):
        read(schema, bytes.fromhex(wire), 0, flexible=flexible)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_numbers_that_no_varint_holds_are_refused(value: int) -> None:
    with pytest.raises(ConstructError, match="is not a number from 0 to"):
        UVARINT.build(value)


def test_r14_a_varint_may_be_longer_than_it_need_be() -> None:
    """Kafka reads them so. A length of 0 in two bytes is null, as it is in one."""
    schema = Schema(Everything, (Field("value", NULLABLE_STRING),))
    for wire, value in ((b"\x80\0\0", None), (b"\x81\0\0", ""), (b"\x82\0a\0", "a")):
        assert read(schema, wire, 0, flexible=True) == interpret.parse(schema.at(0, True), wire) == Everything(value)


def test_r15_an_array_of_nothing_cannot_be_drawn() -> None:
    class Nothing(Message):
        pass

    with pytest.raises(AssertionError, match="elements without bytes could be counted without end"):
        ArrayOf(StructOf(Nothing, ()), UVARINT, nullable=False)


def test_a_field_of_a_message_has_a_default() -> None:
    class Careless(Message):
        x: int

    with pytest.raises(AssertionError, match="each field of Careless has a default"):
        Schema(Careless, (Field("x", INT8),)).at(0, False)


def test_a_schema_makes_the_construct_of_a_version_once() -> None:
    assert NAMED.at(1, True) is NAMED.at(1, True)
    assert NAMED.at(1, True) is not NAMED.at(2, True)


def test_a_reader_gives_what_is_left_as_streams_do() -> None:
    reader = Reader(b"abc")
    assert (reader.read(2), reader.remaining, reader.read(2), reader.remaining) == (b"ab", 1, b"c", 0)
