"""`docs/protocol.md`: every API with its versions and fields, read off `protocol.apis` and the message files.

What a version brought is the file's CHANGES; what a field means is the comment beside it in its class.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from protocol import wire
from protocol.apis import API, APIS, TABLE
from protocol.messages import consumer_protocol
from protocol.schema import Field, Message, Schema

INTRODUCTION = """\
# The protocol

<!-- This page is written by `python -m docs.generate` from `protocol/apis.py` and `protocol/messages/`. -->

Every API that Muster can read and write, with all versions whose layout it knows, back to 0. Each has a file of its
own in `protocol/messages/`, named after it. [The APIs](apis.md) lists the APIs and versions that a server offers.

A frame on the wire is its size as an int32, a header and a body. The header of a request is api key (int16), version
(int16), correlation id (int32) and client id (nullable string); the header of a response is the correlation id. From
an API's first flexible version on (KIP-482) both headers end with tagged fields, strings, bytes and arrays have
varints for lengths, and every struct ends with tagged fields. There are two exceptions, so that a client and a broker
of different ages understand each other: the client id is never compact, and the header of an ApiVersions response
never has tags.

Fields are named as in Kafka, in snake case; `[]` is an array, and paths read as they do in error messages:
`topics[].partitions[].error_code`. *Versions* says which versions have the field: in all others it reads as its
default, and is not written. Numbers are big-endian.
"""

TYPES: Mapping[Any, str] = {
    wire.BOOLEAN: "boolean",
    wire.INT8: "int8",
    wire.INT16: "int16",
    wire.INT32: "int32",
    wire.INT64: "int64",
    wire.UINT16: "uint16",
    wire.FLOAT64: "float64",
    wire.UUID: "uuid",
    wire.STRING: "string",
    wire.NULLABLE_STRING: "nullable string",
    wire.BYTES: "bytes",
    wire.NULLABLE_BYTES: "nullable bytes",
}


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        index(),
        *(section(api) for api in sorted(TABLE, key=lambda api: api.name)),
        embedded_messages(),
    ]
    return "\n".join(parts)


def apis_table(offered: Mapping[int, range]) -> str:
    """API, key and versions, by name, of what is offered."""
    rows = [(APIS[key].name, str(key), span(versions)) for key, versions in offered.items()]
    return table(("API", "key", "versions"), sorted(rows))


def index() -> str:
    """All APIs by key, beside what Apache Kafka offers of them."""
    rows = [
        (
            str(api.key),
            f"[{api.name}](#{anchor(api)})",
            span(api.versions),
            "none" if api.flexible_since is None else f"{api.flexible_since}+",
            span(api.kafka_4_3),
            span(api.kafka_3_9),
        )
        for api in sorted(TABLE, key=lambda api: api.key)
    ]
    return table(("key", "API", "versions", "flexible", "Kafka 4.3.1 offers", "Kafka 3.9 offers"), rows)


def section(api: API) -> str:
    """One API: what it is for, what each version brought, and its fields."""
    return "\n".join(
        [
            f"## {api.name} ({api.key})\n",
            about(api.messages.__doc__),
            table(("version", "what it brought"), [(str(version), text) for version, text in api.changes.items()]),
            f"### {api.name} request\n",
            fields_table(api.request),
            f"### {api.name} response\n",
            fields_table(api.response),
        ]
    )


def embedded_messages() -> str:
    """The consumer protocol, which is no API of its own."""
    changes = [(str(version), text) for version, text in consumer_protocol.CHANGES.items()]
    return "\n".join(
        [
            "## ConsumerProtocol\n",
            about(consumer_protocol.__doc__),
            table(("version", "what it brought"), changes),
            "### Subscription\n",
            fields_table(consumer_protocol.SUBSCRIPTION),
            "### Assignment\n",
            fields_table(consumer_protocol.ASSIGNMENT),
        ]
    )


def fields_table(schema: Schema) -> str:
    rows = list(field_rows(schema, ""))
    if not rows:
        return "It has no fields.\n"
    return table(("field", "type", "versions", "default", "meaning"), rows)


def field_rows(schema: Schema, path: str) -> Iterator[tuple[str, ...]]:
    """A row for each field, those of a struct behind the field that holds it."""
    meanings = comments(schema.cls)
    empty = schema.cls()
    for field in schema.fields:
        name, inner = path + field.name, struct_of(field)
        default = "" if inner else literal(getattr(empty, field.name))
        yield f"`{name}`", type_name(field), field_span(field), default, meanings.get(field.name, "")
        if inner:
            yield from field_rows(inner, name + ("[]." if isinstance(field.type, wire.Array) else "."))


def struct_of(field: Field) -> Schema | None:
    """The schema inside a field's type, if it holds structs."""
    inner: Any = field.type
    while isinstance(inner, wire.Array | wire.Nullable):
        inner = inner.of
    return inner if isinstance(inner, Schema) else None


def type_name(field: Field) -> str:
    name = plain_name(field.type)
    if field.nullable_since is not None:
        name += f", nullable from {field.nullable_since}"
    return name if field.tag is None else f"{name}, tag {field.tag}"


def plain_name(kind: Any) -> str:
    if isinstance(kind, wire.Array):
        return f"{'nullable ' if kind.nullable else ''}[]{plain_name(kind.of)}"
    if isinstance(kind, wire.Nullable):
        return f"nullable {plain_name(kind.of)}"
    return "struct" if isinstance(kind, Schema) else TYPES[kind]


def field_span(field: Field) -> str:
    if field.until is None:
        return f"{field.since}+"
    return span(range(field.since, field.until + 1))


def comments(cls: type[Message]) -> dict[str, str]:
    """What stands beside each field of a class, by the field's name."""
    return dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(cls), re.MULTILINE))


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return "zero" if value == wire.ZERO_UUID else "empty"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if value in ((), ""):
        return "empty"
    return {-(2**31): "-2^31", 2**31 - 1: "2^31 - 1", 2**63 - 1: "2^63 - 1"}.get(value, str(value))


def span(versions: range | None) -> str:
    """`0-9`, `3`, or nothing."""
    if not versions:
        return "-"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def about(docstring: str | None) -> str:
    """A module's docstring; its first line names the API, which the heading has done."""
    assert docstring, "each message file says what its messages are for"
    _, _, text = docstring.partition(": ")
    return text[0].upper() + text[1:].rstrip() + "\n"


def anchor(api: API) -> str:
    return f"{api.name}-{api.key}".lower()


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
