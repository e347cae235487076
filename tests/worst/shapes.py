"""The largest requests of every API, made from the table and the schemas: no shape is written by hand.

For each API and version, each array of the request is filled with as many elements as a frame and the budget of the
decoder allow: with the same name again and again, with different names, and with the longest names. All other arrays
that lead to it have one element.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from protocol.apis import API, TABLE
from protocol.codec import decode_request, encode_request
from protocol.errors import ProtocolError
from protocol.schema import Field, Schema
from protocol.wire import Array, Nullable

FRAME_BYTES_MAX: Final = 8 << 20
FILLINGS: Final = ("same", "different", "longest")
LONG: Final = 32_000  # characters of the longest names
Path = tuple[str, ...]  # names of fields, down to the array that is filled


class Shape(Struct, frozen=True):
    """One array of a request in one version, and how it is filled."""

    api: API
    version: int
    path: Path
    filling: str

    @property
    def name(self) -> str:
        return f"{self.api.name} {self.version} {'.'.join(self.path)} {self.filling}"

    def request(self, count: int, state: "Names") -> Any:
        """The request with so many elements."""
        return build(self.api.request, self.version, self.path, self.filling, state, count)


class Names(Struct, frozen=True):
    """What the server knows, so that requests find it: for each kind of name, the n-th, and ids of topics."""

    name: Callable[[str, int], str]  # by the kind (`topic`, `group`, `transaction`, `member`, `other`) and number
    topic_id: Callable[[int], bytes]
    partitions: int  # of each topic
    given: Mapping[str, Any] = {}  # values that a request needs to be taken (`acceptance.py`)

    def find(self, owner: str, field: str, at: int, count: int) -> tuple[Any, ...]:
        """Return the value that a field is given, as the only one; nothing, if it is given none."""
        for key in (f"{owner}.{field}", field):
            if key in self.given:
                value = self.given[key]
                return (value(at, count) if callable(value) else value,)
        return ()


def shapes(table: tuple[API, ...] = TABLE) -> list[Shape]:
    """All shapes: of every version that has an array."""
    return [
        Shape(api, version, path, filling)
        for api in table
        if api.kafka_4_3 is not None
        for version in api.kafka_4_3
        for path in arrays(api.request, version)
        for filling in FILLINGS
    ]


def largest(shape: Shape, names: Names) -> tuple[int, bytes]:
    """The most elements for which the frame is not too long and can be decoded, and that frame."""

    def frame(count: int) -> bytes | None:
        try:
            data = encode_request(shape.api.key, shape.version, 1, "c", shape.request(count, names))[4:]
            if len(data) > FRAME_BYTES_MAX:
                return None
            decode_request(data)
        except ProtocolError:
            return None
        return data

    least, found = 1, frame(1)
    if found is None:
        return 0, b""
    while least < 1 << 20 and (data := frame(2 * least)) is not None:
        least, found = 2 * least, data
    most = 2 * least
    while most - least > max(least // 8, 1):
        middle = (least + most) // 2
        if (data := frame(middle)) is None:
            most = middle
        else:
            least, found = middle, data
    return least, found


def arrays(schema: Schema, version: int, before: Path = ()) -> Iterator[Path]:
    """Yield where the arrays of a request are."""
    for field in schema.fields:
        if not field.is_in(version):
            continue
        path = (*before, field.name)
        if isinstance(field.type, Array):
            yield path
            if isinstance(field.type.of, Schema):
                yield from arrays(field.type.of, version, path)
        inner = field.type.of if isinstance(field.type, Nullable) else field.type
        if isinstance(inner, Schema):
            yield from arrays(inner, version, path)


def build(schema: Schema, version: int, path: Path, filling: str, names: Names, count: int) -> Any:
    """A message whose array at `path` has `count` elements."""
    values = {
        field.name: _value(field, version, path, filling, names, count)
        for field in schema.fields
        if field.is_in(version)
    }
    return schema.cls(**values)


def _value(field: Field, version: int, path: Path, filling: str, names: Names, count: int) -> Any:
    kind = field.type
    is_on_path = bool(path) and path[0] == field.name
    if not is_on_path and (found := names.find("", field.name, 0, count)):
        return found[0]
    if isinstance(kind, Array):
        if is_on_path and len(path) == 1:
            return _fill(field.name, kind.of, version, filling, names, count)
        if not is_on_path:
            return ()
        return (_element(field.name, kind.of, version, path[1:], 0, "different", names, count, filling),)
    if isinstance(kind, Nullable):
        if isinstance(kind.of, Schema) and is_on_path:
            return build(kind.of, version, path[1:], filling, names, count)
        return None
    if isinstance(kind, Schema):
        return build(kind, version, path[1:] if is_on_path else (), filling, names, count)
    return make_scalar(field.name, kind, 0, names)


def _fill(name: str, of: Any, version: int, filling: str, names: Names, count: int) -> tuple[Any, ...]:
    if filling == "same":
        return (_element(name, of, version, (), 0, filling, names, 0, filling),) * count
    return tuple([_element(name, of, version, (), at, filling, names, 0, filling) for at in range(count)])


def _element(
    name: str, of: Any, version: int, path: Path, at: int, style: str, names: Names, count: int, filling: str
) -> Any:
    if not isinstance(of, Schema):
        found = names.find("", f"{name}[]", at, count)
        return found[0] if found else make_scalar(name, of, at, names, is_long=style == "longest")
    values: dict[str, Any] = {}
    for field in of.fields:
        if not field.is_in(version):
            continue
        is_on_path = bool(path) and path[0] == field.name
        if not is_on_path and (found := names.find(name, field.name, at, count)):
            values[field.name] = found[0]
        elif is_on_path or isinstance(field.type, Array | Nullable | Schema):
            values[field.name] = _value(field, version, path, filling, names, count)
        else:
            values[field.name] = make_scalar(field.name, field.type, at, names, is_long=style == "longest", owner=name)
    return of.cls(**values)


_KINDS: Final = (
    ("transaction", ("transactional_id", "transaction")),
    ("group", ("group", "coordinator_key", "key")),
    ("member", ("member",)),
    ("topic", ("topic", "name", "resource_name", "cursor")),
)


def make_scalar(name: str, kind: Any, at: int, names: Names, *, is_long: bool = False, owner: str = "") -> Any:
    """Return a value of a field that is no array: a name of what there is, a number that is valid."""
    construct = kind.at(0, False)
    sample = type(construct).__name__
    if sample == "Text":
        text = names.name(_kind_of(name, owner), at)
        return text.ljust(LONG, "x") if is_long else text
    if sample == "Blob":
        return b""
    if sample == "Bytes":
        return names.topic_id(at)
    layout = construct.fmtstr[-1]
    if layout == "?":
        return name.startswith(("include", "fetch"))
    if layout == "d":
        return float(at)
    return _number(name, at, names, 8 * construct.length)


def _number(name: str, at: int, names: Names, bits: int) -> int:
    known = {
        "resource_type": 2, "resource_type_filter": 1, "pattern_type_filter": 1, "resource_pattern_type": 3,
        "operation": 2, "permission_type": 3, "session_epoch": -1, "isolation_level": 1, "timestamp": 1, "acks": 1,
        "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "count": 3, "num_partitions": 1,
        "replication_factor": 1, "config_operation": 2, "iterations": 4_096, "mechanism": 1, "max_bytes": 1 << 20,
        "partition_max_bytes": 1 << 20, "timeout_ms": 1_000, "fetch_offset": 0, "producer_id": 1,
        "replica_id": -1, "response_partition_limit": 2_000,
    }  # fmt: skip
    if name in known:
        return known[name]
    if "partition" in name or name == "index":
        return at % names.partitions
    return min(at, 2 ** (bits - 1) - 1) if name.endswith(("_ids", "filters", "nodes", "brokers")) else 0


def _kind_of(name: str, owner: str) -> str:
    for kind, words in _KINDS:
        if any(word in name for word in words):
            return kind
    for kind, words in _KINDS:
        if any(word in owner for word in words):
            return kind
    return "other"
