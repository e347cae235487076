"""What holds for every message file: the class and its schema say the same, and the table names the file."""

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import protocol.messages
from protocol import wire
from protocol.apis import API, APIS, BY_NAME, KAFKA_3_9_RANGES, LATEST_RANGES, TABLE, api_of
from protocol.messages import consumer_protocol
from protocol.schema import Field, Message, Schema

IN_COLUMNS = {
    (name, "partitions")
    for name in ("OffsetCommitRequestTopic", "OffsetFetchResponseTopic", "OffsetFetchResponseTopics")
}
EMBEDDED = (consumer_protocol.SUBSCRIPTION, consumer_protocol.ASSIGNMENT)
FILES = {path.stem for path in Path(protocol.messages.__file__).parent.glob("*.py")} - {"__init__"}
SCALARS = {
    wire.BOOLEAN: bool,
    wire.FLOAT64: float,
    wire.UINT16: int,
    wire.INT8: int,
    wire.INT16: int,
    wire.INT32: int,
    wire.INT64: int,
    wire.STRING: str,
    wire.BYTES: bytes,
    wire.UUID: bytes,
}
NULLABLE = {wire.NULLABLE_STRING: str | None, wire.NULLABLE_BYTES: bytes | None, wire.RECORDS: bytes | None}


def schemas(root: Schema) -> Iterator[Schema]:
    """A schema and those inside it."""
    yield root
    for field in root.fields:
        inner = field.type
        while isinstance(inner, wire.Array | wire.Nullable):
            inner = inner.of
        if isinstance(inner, Schema):
            yield from schemas(inner)


ROOTS = [root for api in TABLE for root in (api.request, api.response)] + list(EMBEDDED)
ALL = {schema.cls.__name__: schema for root in ROOTS for schema in schemas(root)}


@pytest.fixture(params=list(ALL.values()), ids=list(ALL))
def schema(request: pytest.FixtureRequest) -> Schema:
    found: Schema = request.param
    return found


@pytest.fixture(params=TABLE, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> API:
    found: API = request.param
    return found


def python_type(field: Field) -> Any:
    """The annotation that a field's type asks for."""
    kind: Any = field.type
    if isinstance(kind, Schema):
        plain: Any = kind.cls
    elif isinstance(kind, wire.Nullable):
        assert isinstance(kind.of, Schema)
        plain = kind.of.cls | None
    elif isinstance(kind, wire.Array):
        element: Any = kind.of.cls if isinstance(kind.of, Schema) else SCALARS[kind.of]
        plain = tuple[element, ...] | None if kind.nullable else tuple[element, ...]
    else:
        plain = NULLABLE[kind] if kind in NULLABLE else SCALARS[kind]
    return plain | None if field.nullable_since is not None else plain


def test_a_schema_has_the_fields_of_its_class_in_their_order(schema: Schema) -> None:
    assert tuple(field.name for field in schema.fields) == schema.cls.__struct_fields__


def hints_of(cls: type[Message]) -> dict[str, Any]:
    """The annotations of a class, as if none of its arrays could be `Rows`."""
    hints = get_type_hints(cls)
    for name, hint in hints.items():
        if get_origin(hint) is Sequence:
            assert (cls.__name__, name) in IN_COLUMNS
            hints[name] = tuple[(*get_args(hint), ...)]  # type: ignore[misc]  # a type that is made here
    return hints


def test_annotations_are_what_the_wire_types_say(schema: Schema) -> None:
    hints = hints_of(schema.cls)
    assert {field.name: python_type(field) for field in schema.fields} == {
        name: hint for name, hint in hints.items() if name in schema.cls.__struct_fields__
    }


def test_every_field_has_a_default_of_its_type(schema: Schema) -> None:
    hints = hints_of(schema.cls)
    message = schema.cls()
    for field in schema.fields:
        value, hint = getattr(message, field.name), hints[field.name]
        allowed = get_args(hint) if type(None) in get_args(hint) else (hint,)
        assert type(value) in [getattr(kind, "__origin__", kind) for kind in allowed], field.name
        assert field.type is not wire.UUID or len(value) == 16, field.name


def test_null_is_a_default_only_where_every_version_allows_it() -> None:
    """A field that became nullable in a later version has a default that every version can write."""
    later = [(schema, field) for schema in ALL.values() for field in schema.fields if field.nullable_since is not None]
    assert len(later) >= 5
    for schema, field in later:
        assert getattr(schema.cls(), field.name) is not None, f"{schema.cls.__name__}.{field.name}"


def test_tags_of_a_struct_count_up_from_zero() -> None:
    tagged = {name: [field.tag for field in schema.fields if field.tag is not None] for name, schema in ALL.items()}
    tagged = {name: tags for name, tags in tagged.items() if tags}
    assert len(tagged) >= 5
    for name, tags in tagged.items():
        assert sorted(tags) == list(range(len(tags))), name


def test_every_file_is_in_the_table() -> None:
    assert {api.module for api in TABLE} | {"consumer_protocol"} == FILES


def test_every_message_class_is_drawn_by_a_schema(api: API) -> None:
    assert classes(api.messages) == {item.cls for root in (api.request, api.response) for item in schemas(root)}


def test_classes_are_named_after_their_message(api: API) -> None:
    for direction, root in (("Request", api.request), ("Response", api.response)):
        assert root.cls.__name__ == api.name + direction
        assert all(item.cls.__name__.startswith(api.name + direction) for item in schemas(root))


def test_every_version_says_what_it_brought(api: API) -> None:
    assert list(api.changes) == list(api.versions)


def test_versions_of_fields_are_versions_of_the_api(api: API) -> None:
    for item in [*schemas(api.request), *schemas(api.response)]:
        for field in item.fields:
            bounds = (field.since or api.versions.start, field.until, field.nullable_since)  # 0: in all versions
            assert all(bound in api.versions for bound in bounds if bound is not None), field.name
            assert field.tag is None or api.is_flexible(field.since), field.name


def test_what_kafka_advertises_is_drawn() -> None:
    for ranges in (LATEST_RANGES, KAFKA_3_9_RANGES):
        for key, versions in ranges.items():
            assert set(versions) <= set(APIS[key].versions), APIS[key].name


def test_an_api_is_found_by_key_name_class_and_message(api: API) -> None:
    assert APIS[api.key] is BY_NAME[api.name] is api_of(api.request.cls) is api_of(api.response.cls()) is api


def test_headers_follow_from_flexibility() -> None:
    assert [BY_NAME["Heartbeat"].request_header_version(version) for version in (3, 4)] == [1, 2]
    assert [BY_NAME["Heartbeat"].response_header_version(version) for version in (3, 4)] == [0, 1]
    assert [BY_NAME["ApiVersions"].request_header_version(version) for version in (2, 3)] == [1, 2]
    assert [BY_NAME["ApiVersions"].response_header_version(version) for version in (2, 3)] == [0, 0]
    assert BY_NAME["SaslHandshake"].request_header_version(1) == 1


def classes(module: ModuleType) -> set[type[Message]]:
    return {
        item
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, Message) and item.__module__ == module.__name__
    }
