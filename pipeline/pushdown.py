"""Filters of Spark as narrower options, and the columns that a reader's schema asks for.

A filter that is not understood changes nothing. Filters are told apart by the name of their class, since Spark 4.0 has
no such classes.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from pipeline.decode.schema import spark_type
from pipeline.errors import UsageError
from pipeline.options import SourceOptions


def narrow(options: SourceOptions, filters: Iterable[Any]) -> SourceOptions:
    """Return the options with which only rows are read that the filters may keep; all filters hold together."""
    for one in filters:
        kind, value = type(one).__name__, getattr(one, "value", None)
        column = ".".join(getattr(one, "attribute", ()))
        values: tuple[Any, ...] = (value,) if kind == "EqualTo" else tuple(value or ()) if kind == "In" else ()
        if column == "group" and values and all(isinstance(group, str) for group in values):
            options = msgspec.structs.replace(options, groups=_common(options.groups, values))
        elif column == "log_partition" and values and all(isinstance(number, int) for number in values):
            options = msgspec.structs.replace(options, log_partitions=_common(options.log_partitions, values))
        elif column == "record_ts" and isinstance(value, int) and not options.is_reduced:
            # A reduction must see the records that supersede those that are asked for.
            options = _within(options, kind, value)
    return options


def choose_columns(known: pa.Schema, wanted: Iterable[Any]) -> pa.Schema:
    """Return the columns that the fields of a schema of Spark's name, in their order. Raises UsageError for others."""
    chosen: list[pa.Field] = []
    for one in wanted:
        if one.name not in known.names:
            raise UsageError(f"unknown column {one.name!r}: expected some of {', '.join(known.names)}")
        field, kind = known.field(one.name), one.dataType.simpleString()
        if kind != spark_type(field):
            raise UsageError(f"invalid column {one.name} {kind}: expected {spark_type(field)}")
        if any(before.name == one.name for before in chosen):
            raise UsageError(f"invalid schema: it has {one.name} more than once")
        chosen.append(field.with_nullable(one.nullable))
    return pa.schema(chosen)


def _common(known: tuple[Any, ...] | None, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(set(values) if known is None else set(known) & set(values)))


def _within(options: SourceOptions, kind: str, value: int) -> SourceOptions:
    """Narrow the times: from `since_ms` on, and before `until_ms`."""
    since = {"GreaterThan": value + 1, "GreaterThanOrEqual": value, "EqualTo": value}.get(kind)
    until = {"LessThan": value, "LessThanOrEqual": value + 1, "EqualTo": value + 1}.get(kind)
    if since is not None:
        since = since if options.since_ms is None else max(since, options.since_ms)
        options = msgspec.structs.replace(options, since_ms=since)
    if until is not None:
        until = until if options.until_ms is None else min(until, options.until_ms)
        options = msgspec.structs.replace(options, until_ms=until)
    return options
