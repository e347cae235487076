"""The independent codec, kio: the same values must be the same bytes there and here, in both directions.

In the default run there are 15 examples for each API, version and direction. More of them:

    python -m tests.protocol.oracle --examples 2000 --seed 7 [--target heartbeat]

kio wraps some numbers: milliseconds are time spans or dates, error codes an enum. Values are made as kio's objects, from
kio's own types, and then laid beside ours field by field, so that names and order are compared as well. (Its names leave
the unit to the type: `throttle_time`.)
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from types import NoneType
from typing import Any, get_args
from uuid import UUID

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.schema.index import LoadableEntityType, api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, get_field_tag
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

from protocol.constructs import CountedArray
from protocol.schema import Field, Schema
from protocol.structs import NullableStruct
from protocol.wire import Array, Nullable
from tests.protocol.targets import CLIENT_ID, CORRELATION_ID, TARGETS, Target
from tests.protocol.values import Choices, blob, count, integer, text

FORMATS = {"int8": "b", "int16": "h", "int32": "l", "int64": "q", "uint16": "H", "timedelta_i32": "l"}
CODES = tuple(ErrorCode)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
ZERO = dict.fromkeys((*FORMATS, "float64", "error_code", "timedelta_i64", "datetime_i64", "bool"), 0)
ZERO |= {"string": "", "bytes": b"", "records": None, "uuid": bytes(16)}
"""What a field is in versions that lack it, if Kafka's definition says no other, by kio's names of the types."""
NULL_TO_KIO_ALONE = {"uuid", "datetime_i64", "records"}
"""Types with values of kio's own that mean none, and records, of which it allows null in no case or in all."""


def kind_of(target: Target) -> LoadableEntityType:
    return EntityType.request if target.direction == "request" else EntityType.response


def is_known(target: Target) -> bool:
    """Whether kio has the version, by its index: to import the modules of all versions takes two seconds."""
    versions = schema_name_map.get(api_key_map.get(target.api.key, ""), {})
    return kind_of(target) in versions.get(target.version, {})


@cache
def entity_class(target: Target) -> Any:
    """kio's class of a message that it knows."""
    kind = kind_of(target)
    module = load_payload_module(target.api.key, target.version, kind)
    return next(
        cls
        for cls in vars(module).values()
        if isinstance(cls, type) and getattr(cls, "__type__", None) is kind and cls.__module__ == module.__name__
    )


KNOWN = [target for target in TARGETS if is_known(target)]


def is_nullable(kind: Any) -> bool:
    return NoneType in get_args(kind)


def entity_of(cls: Any, choices: Choices) -> Any:
    """An object of one of kio's classes."""
    values = {}
    for field in dataclasses.fields(cls):
        if get_field_tag(field) is not None and field.default is not dataclasses.MISSING and choices.below(2):
            continue
        values[field.name] = field_of(field, choices)
    return cls(**values)


def field_of(field: Any, choices: Choices) -> Any:
    kind = classify_field(field)
    nullable = is_nullable(field.type) and get_field_tag(field) is None
    if kind.is_array:
        if nullable and choices.below(4) == 1:
            return None
        return tuple(element_of(kind, field, choices) for _ in range(count(choices)))
    if nullable and choices.below(4) == 1:
        return None
    return element_of(kind, field, choices)


def element_of(kind: Any, field: Any, choices: Choices) -> Any:
    if isinstance(kind, EntityField | EntityTupleField):
        return entity_of(kind.type_, choices)
    return primitive_of(field.metadata["kafka_type"], choices)


def primitive_of(name: str, choices: Choices) -> Any:
    if name == "error_code":
        return CODES[choices.byte() % len(CODES)]
    if name == "bool":
        return choices.below(2) == 1
    if name == "uuid":
        return UUID(int=choices.number(16) or 1)
    if name == "string":
        return text(choices)
    if name in ("bytes", "records"):
        return blob(choices)
    if name == "datetime_i64":
        return EPOCH + MILLISECOND * (choices.number(5) // 1000 * 1000)  # kio's dates are whole seconds
    if name == "timedelta_i64":
        return MILLISECOND * integer("l", choices)
    if name == "float64":
        return float(integer("l", choices))
    value = integer(FORMATS[name], choices)
    return MILLISECOND * value if name == "timedelta_i32" else value


def ours(schema: Schema, version: int, flexible: bool, entity: Any) -> Any:
    """The same message as one of ours, laid beside kio's field by field."""
    here = [field for field in schema.fields if field.is_in(version) and (flexible or field.tag is None)]
    there = dataclasses.fields(entity)
    assert len(here) == len(there), (schema.cls, [field.name for field in here], [field.name for field in there])
    values = {}
    for field, other in zip(here, there, strict=True):
        assert field.name.removesuffix("_ms") == other.name.removesuffix("_ms"), (schema.cls, field.name, other.name)
        value = getattr(entity, other.name)
        nested = getattr(field.type, "of", field.type)
        if isinstance(value, tuple):
            assert isinstance(field.type, Array)
            values[field.name] = tuple(converted(nested, version, flexible, item) for item in value)
        else:
            assert value is None or isinstance(nested, Schema) == dataclasses.is_dataclass(value)
            values[field.name] = absent(other) if value is None else converted(nested, version, flexible, value)
    return schema.cls(**values)


def absent(field: Any) -> Any:
    """What a null of kio's is on the wire: some of its types are numbers or UUIDs with a value that means none."""
    return {"datetime_i64": -1, "uuid": bytes(16)}.get(field.metadata.get("kafka_type"))


def converted(nested: Any, version: int, flexible: bool, value: Any) -> Any:
    if isinstance(nested, Nullable):
        nested = nested.of
    if isinstance(nested, Schema):
        return ours(nested, version, flexible, value)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, timedelta):
        return value // MILLISECOND
    return (value - EPOCH) // MILLISECOND if isinstance(value, datetime) else value


def written(target: Target, entity: Any) -> bytes:
    """kio's bytes of a whole frame, header and body, without its size."""
    header_class = type(entity).__header_schema__
    if target.direction == "request":
        header = header_class(
            request_api_key=i16(target.api.key),
            request_api_version=i16(target.version),
            correlation_id=i32(CORRELATION_ID),
            client_id=CLIENT_ID,
        )
    else:
        header = header_class(correlation_id=i32(CORRELATION_ID))
    with io.BytesIO() as buffer:
        entity_writer(header_class)(buffer, header)
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def check(target: Target, data: bytes) -> None:
    """One example: kio's bytes and ours are the same, and each reads the other's as the same values."""
    entity = entity_of(entity_class(target), Choices(data))
    schema = target.api.request if target.direction == "request" else target.api.response
    body = ours(schema, target.version, target.api.is_flexible(target.version), entity)
    theirs = written(target, entity)
    frame = target.encode(body)
    assert frame == theirs
    assert target.decode(theirs) == target.frame_of(body)
    header, used = entity_reader(type(entity).__header_schema__)(frame, 0)
    assert header.correlation_id == CORRELATION_ID
    again, size = entity_reader(type(entity))(frame, used)
    assert (again, used + size) == (entity, len(frame))


def check_fields(schema: Schema, cls: type[Any], version: int, flexible: bool) -> None:
    """What examples do not show: where null is allowed, and what a field is in versions that lack it."""
    here = [field for field in schema.fields if field.is_in(version) and (flexible or field.tag is None)]
    for field, other in zip(here, dataclasses.fields(cls), strict=True):
        kind = classify_field(other)
        where = f"{schema.cls.__name__}.{field.name} in version {version}"
        assert field.tag == get_field_tag(other), where
        construct = field.at(version, flexible)
        is_null_here = isinstance(construct, NullableStruct) or (
            isinstance(construct, CountedArray) and construct.nullable
        )
        is_null_there = is_nullable(other.type)
        assert is_null_here == is_null_there or other.metadata.get("kafka_type") in NULL_TO_KIO_ALONE, where
        default = getattr(schema.cls(), field.name)
        if other.default is not dataclasses.MISSING or not is_null_there:
            assert default == default_of(field, other, version, flexible), where
        inner = field.type
        while isinstance(inner, Array | Nullable):
            inner = inner.of
        if isinstance(inner, Schema):
            assert isinstance(kind, EntityField | EntityTupleField), where
            check_fields(inner, kind.type_, version, flexible)


def default_of(field: Field, other: Any, version: int, flexible: bool) -> Any:
    """What Kafka's definition says that a field is in versions that lack it, as a value of ours."""
    if other.default is None:
        return absent(other)
    if isinstance(other.default, tuple) or classify_field(other).is_array:
        return ()
    if other.default is not dataclasses.MISSING:
        return converted(field.type, version, flexible, other.default)
    return field.type.cls() if isinstance(field.type, Schema) else ZERO[other.metadata["kafka_type"]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the codec with kio's.")
    parser.add_argument("--examples", type=int, default=2000, help="for each API, version and direction")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="", help="only those with this in their name, such as heartbeat_v4")
    options = parser.parse_args()
    targets = [target for target in KNOWN if options.target in str(target)]
    for target in targets:
        random = Random(f"{options.seed} {target}")
        for example in range(options.examples):
            data = random.randbytes(random.choice((8, 40, 200, 800)))
            try:
                check(target, data)
            except Exception:
                print(f"{target}, seed {options.seed}, example {example}: {data.hex()}", file=sys.stderr)
                raise
    print(f"{len(targets)} messages x {options.examples} examples, seed {options.seed}: the same in kio and here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
