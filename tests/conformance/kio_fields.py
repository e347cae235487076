"""The fields of kio's classes: their plain names and kinds, read from annotations and metadata."""

import copy
import dataclasses
import functools
import types
import typing
from typing import Any


class Field(typing.NamedTuple):
    """One field of one kio class: its plain name and how its values turn."""

    plain: str
    name: str
    kind: str  # kio's `kafka_type`, or "struct"
    nested: type | None
    is_array: bool
    is_nullable: bool
    default: object


@functools.cache
def fields_of(cls: Any) -> tuple[Field, ...]:
    """The fields of a kio class, in the order of Kafka's schema."""
    return tuple(field_of(field) for field in dataclasses.fields(cls))


def field_of(field: "dataclasses.Field[Any]") -> Field:
    """Read one dataclass field: the annotations are real types, the wire type is in the metadata."""
    inner, nullable = stripped(field.type)
    is_array = typing.get_origin(inner) is tuple
    if is_array:
        inner, _ = stripped(typing.get_args(inner)[0])
    nested: Any = inner if dataclasses.is_dataclass(inner) else None
    kind = "struct" if nested else field.metadata["kafka_type"]
    plain = f"{field.name}_ms" if kind.startswith("timedelta") else field.name
    return Field(plain, field.name, kind, nested, is_array, nullable, field.default)


def stripped(annotation: Any) -> tuple[Any, bool]:
    """The type without `| None`, and whether that was there."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kept = [one for one in typing.get_args(annotation) if one is not types.NoneType]
        return kept[0], True
    return annotation, False


@functools.cache
def with_numbers(cls: Any) -> Any:
    """The class with numbers for points in time: kio itself reads no -1, which Kafka sends where there is none."""
    fields = {field.name: copy.copy(field) for field in dataclasses.fields(cls)}
    for field in fields.values():
        if nested := field_of(field).nested:
            inner: Any = with_numbers(nested)
            inner = tuple[inner, ...] if field_of(field).is_array else inner
            field.type = inner | None if stripped(field.type)[1] else inner
        elif field.metadata["kafka_type"] == "datetime_i64" and not stripped(field.type)[1]:
            field.metadata = {"kafka_type": "int64"}
    return type(cls.__name__, (cls,), {"__dataclass_fields__": fields, "__slots__": ()})
