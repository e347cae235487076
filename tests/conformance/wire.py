"""Plain values to bytes and back, by kio's schemas, so that neither side's codec is ours.

A request is an API name (Kafka's, in snake case), a version and a dict of plain values: int, str, bytes, bool, None,
list, dict. Fields have Kafka's names in snake case with their units (`session_timeout_ms`); what is left out takes the
schema's default, else zero, "", `b""` or an empty list. A name that the version does not have is an error: a story
that sends it does not send what it says. Topic ids are UUID text, errors are Kafka's names (`UNKNOWN_MEMBER_ID`).
"""

import dataclasses
import datetime
import io
import struct
import uuid
from collections.abc import Mapping
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from tests.conformance.kio_fields import Field, fields_of, with_numbers

Plain = Any
KEYS: Mapping[str, int] = {name: key for key, name in api_key_map.items()}
EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
MS = datetime.timedelta(milliseconds=1)


ZERO: Mapping[str, Plain] = {
    "string": "",
    "bytes": b"",
    "records": None,
    "bool": False,
    "error_code": "NONE",
    "struct": {},
}


def build(cls: Any, values: Mapping[str, Plain]) -> Any:
    """The kio value for plain `values`."""
    known = fields_of(cls)
    if unknown := values.keys() - {one.plain for one in known}:
        raise TypeError(f"{cls.__name__} v{cls.__version__} has no {', '.join(sorted(unknown))}")
    return cls(**{one.name: value_of(one, values) for one in known if chosen(one, values)})


def chosen(one: Field, values: Mapping[str, Plain]) -> bool:
    """Whether the value is to be given, not left to kio's default."""
    return one.plain in values or one.default is dataclasses.MISSING


def value_of(one: Field, values: Mapping[str, Plain]) -> Any:
    if one.plain not in values:
        return None if one.is_nullable else () if one.is_array else turned(one, ZERO.get(one.kind, 0))
    value = values[one.plain]
    if value is None:
        return None
    return tuple(turned(one, item) for item in value) if one.is_array else turned(one, value)


def turned(one: Field, value: Plain) -> Any:
    """One plain scalar or struct as kio wants it."""
    if one.nested:
        return build(one.nested, value)
    if one.kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if one.kind.startswith("datetime"):
        return EPOCH + value * MS
    if one.kind == "uuid":
        return uuid.UUID(value) if value else None
    if one.kind == "error_code":
        return ErrorCode[value.lower()]
    return value


def plain(entity: Any) -> dict[str, Plain]:
    """The plain values of a kio value."""
    cls: Any = type(entity)
    return {one.plain: flattened(one, getattr(entity, one.name)) for one in fields_of(cls)}


def flattened(one: Field, value: Any) -> Plain:
    if value is None:
        return None
    return [unturned(one, item) for item in value] if one.is_array else unturned(one, value)


def unturned(one: Field, value: Any) -> Plain:
    if one.nested:
        return plain(value)
    if isinstance(value, datetime.timedelta):
        return value // MS
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MS
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, ErrorCode):
        return value.name.upper()
    return value


def request_frame(
    api: str, version: int, correlation_id: int, client_id: str | None, values: Mapping[str, Plain]
) -> bytes:
    """The whole frame of a request, size first."""
    schema = load_request_schema(KEYS[api], version)
    header = schema.__header_schema__
    head: dict[str, Any] = {
        "request_api_key": KEYS[api],
        "request_api_version": version,
        "correlation_id": correlation_id,
    }
    out = io.BytesIO()
    entity_writer(header)(out, header(**head, client_id=client_id))
    entity_writer(schema)(out, build(schema, values))
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def response_values(api: str, version: int, frame: bytes) -> dict[str, Plain]:
    """The plain values of a response frame (without its size). Surplus bytes are an error."""
    schema = with_numbers(load_response_schema(KEYS[api], version))
    _, used = entity_reader(schema.__header_schema__)(frame, 0)
    body, more = entity_reader(schema)(frame, used)
    if used + more != len(frame):
        raise ValueError(f"{api} v{version}: {len(frame) - used - more} bytes more than the schema has")
    return plain(body)


def embedded(schema: type, values: Mapping[str, Plain]) -> bytes:
    """A versioned struct inside a bytes field (ConsumerProtocolSubscription and its kin): int16 version, then the struct."""
    out = io.BytesIO()
    entity_writer(schema)(out, build(schema, values))
    return struct.pack(">h", schema.__version__) + out.getvalue()


def fitting(api: str, version: int, values: Mapping[str, Plain]) -> dict[str, Plain]:
    """Those of `values` that the version has a field for."""
    known = {one.plain for one in fields_of(load_request_schema(KEYS[api], version))}
    return {name: value for name, value in values.items() if name in known}
