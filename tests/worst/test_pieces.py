"""Whatever array of a response is long, each piece of its bytes holds so many elements at most."""

from functools import partial
from typing import Any

import pytest

from protocol.apis import API, TABLE
from protocol.codec import response_frame
from protocol.encoder import encoder_in_pieces
from protocol.schema import Schema
from protocol.wire import Array
from tests.worst.shapes import Names, Path, arrays, build

ELEMENTS, COUNT = 10, 100
NAMES = Names(lambda kind, number: f"{kind}{number}", lambda number: b"i" * 16, 1_000)


def is_of_structs(schema: Schema, path: Path) -> bool:
    """Numbers and ids are packed in one go, in nanoseconds each."""
    field = next(field for field in schema.fields if field.name == path[0])
    kind: Any = field.type
    while not isinstance(kind, Array | Schema):
        kind = kind.of
    of = kind.of if isinstance(kind, Array) else kind
    return isinstance(of, Schema) and (len(path) == 1 or is_of_structs(of, path[1:]))


def is_tagged(schema: Schema, path: Path) -> bool:
    """The size of a tagged field comes before it: it is in one piece."""
    field = next(field for field in schema.fields if field.name == path[0])
    return field.tag is not None


def test_what_is_tagged_is_short() -> None:
    tagged = {
        path[0]
        for api in TABLE
        for version in api.kafka_4_3 or ()
        for path in arrays(api.response, version)
        if is_tagged(api.response, path)
    }
    assert tagged == {"node_endpoints", "supported_features", "finalized_features"}, "of brokers, of features"


@pytest.mark.parametrize("api", TABLE, ids=lambda api: str(api.name))
@pytest.mark.parametrize("is_null", [True, False], ids=["null", "named"])
def test_a_long_array_is_in_many_pieces(api: API, is_null: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.encoder.PIECE_ELEMENTS", ELEMENTS)
    names = NAMES
    for version in api.kafka_4_3 or ():
        encode = encoder_in_pieces(response_frame(api, version))
        for path in arrays(api.response, version):
            if not is_of_structs(api.response, path) or is_tagged(api.response, path):
                continue
            make = partial(build, api.response, version, path, "same", names)
            few, many = (
                len(list(encode(1, without_strings(make(count)) if is_null else make(count)))) for count in (1, COUNT)
            )
            assert many - few >= COUNT // ELEMENTS - 2, f"{api.name} {version} {'.'.join(path)}"


def without_strings(value: Any) -> Any:
    """The same with null for each string that may be null, which those of structs are by default."""
    if isinstance(value, tuple):
        return tuple([without_strings(one) for one in value])
    if not hasattr(value, "__struct_fields__"):
        return value
    fields = {name: without_strings(getattr(value, name)) for name in value.__struct_fields__}
    defaults = dict(zip(reversed(value.__struct_fields__), reversed(value.__struct_defaults__), strict=False))
    nulls = {name: None for name, default in defaults.items() if default is None and isinstance(fields[name], str)}
    return type(value)(**fields | nulls)
