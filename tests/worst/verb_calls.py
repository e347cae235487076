"""Every call of the admin port with the largest bodies and queries that its types take, made from the table.

For each operation the body has what its type requires, and one after the other each list, mapping and text of it is
filled as far as a body may be long. A query takes each of its literals, and the largest numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from coordinator.admin.http import BODY_BYTES_MAX
from coordinator.admin.operations import Operation

ROOM: Final = BODY_BYTES_MAX - 1_000
EACH: Final = "*"  # in a path: an element of a list, or a value of a mapping
Path = tuple[str, ...]

_NAMES: Final = {
    "group": "g0", "topic": "t0", "member": "m0", "client": "m0", "broker": "0", "number": "1", "api": "Heartbeat",
    "role": "active", "subtopology": "0", "name": "s", "state": "Stable", "error": "NOT_COORDINATOR",
}  # fmt: skip
_ALWAYS: Final = ("group", "error")  # fields without which there would be nothing to do
_NUMBERS: Final = {"limit": 1_000, "timeout_ms": 0, "down_ms": 0, "bytes_max": 1 << 24, "to": 0, "last": 0}
_KEYS: Final = {
    "topics": ("topic",), "offsets": ("group", "topic", "partition"), "queues": ("group", "topic", "partition"),
    "members": ("member", "topic"), "standbys": ("member", "topic"), "assigned": ("member", "topic"),
    "tasks": ("member", "role"), "records": ("topic", "partition", "offset"),
}  # fmt: skip
"""What the keys of mappings in mappings are, by the field: the last ones, if there are fewer."""


class Call(Struct, frozen=True, dict=True):
    """A request to the admin port."""

    name: str
    operation: str  # its path, with names in braces
    method: str
    target: str
    make_body: Callable[[], bytes] = bytes

    @cached_property
    def body(self) -> bytes:
        """The body, which is made when it is asked for: it may be large."""
        return self.make_body()


def calls(operations: Iterable[Operation], others: Iterable[str] = ()) -> list[Call]:
    """Return the calls of all operations, with a group that has offsets and one that has members, and a GET of others."""
    found = [Call(f"GET {path}", path, "GET", path) for path in others]
    for one in operations:
        for group in ("g0", "c0"):
            found += _calls(one, _Maker({**_NAMES, "group": group}))
    return list({(call.method, call.target, call.name): call for call in found}.values())


def _calls(one: Operation, maker: "_Maker") -> Iterator[Call]:
    names = maker.names
    target = "/".join(names[part[1:-1]] if part.startswith("{") else part for part in one.path.split("/"))
    for query in _queries(types.type_info(one.query), maker):
        for what, make_body in _bodies(types.type_info(one.body), maker):
            name = " ".join(filter(None, (one.method, target, query, what)))
            yield Call(name, one.path, one.method, f"{target}?{query}" if query else target, make_body)


def _queries(kind: Any, maker: "_Maker") -> Iterator[str]:
    yield ""
    for field in kind.fields:
        is_choice = isinstance(field.type, types.LiteralType)
        values = field.type.values if is_choice else [maker.make_scalar(field.type, field.name)]
        for value in values:
            if value is not None and value != field.default:
                yield urlencode({field.encode_name: value})


def _bodies(kind: Any, maker: "_Maker") -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield what is filled in a body, and what makes the body."""
    if not kind.fields:
        yield "", bytes
        return

    def fill(path: Path | None, count: int) -> bytes:
        return msgspec.json.encode(maker.make(kind, "", path, count))

    group = msgspec.json.decode(fill(None, 0)).get("group", "")
    yield group, partial(fill, None, 0)
    for path in _paths(kind):
        few, more = len(fill(path, 1)), len(fill(path, 101))
        assert more > few, f"{kind.cls.__name__}.{'.'.join(path)} is not filled"
        count = (ROOM - few) * 45 // (more - few)  # less than there is room for: later names are twice as long
        yield f"{group} {'.'.join(path)} x {count:,}".strip(), partial(fill, path, count)


def _paths(kind: Any, before: Path = (), depth: int = 0) -> Iterator[Path]:
    """Yield where lists, mappings and texts are. Types that have themselves in them end somewhere."""
    kind = _choose(kind)
    if depth > 8:
        return
    if isinstance(kind, types.StructType):
        for field in kind.fields:
            yield from _paths(field.type, (*before, field.name), depth + 1)
    elif isinstance(kind, types.ListType | types.DictType | types.StrType):
        yield before
        inner = getattr(kind, "item_type", None) or getattr(kind, "value_type", None)
        if inner is not None and not isinstance(_choose(inner), types.StrType):
            yield from _paths(inner, (*before, EACH), depth + 1)


def _choose(kind: Any) -> Any:
    """Return one of several types: the one that may be largest."""
    if not isinstance(kind, types.UnionType):
        return kind
    order = (types.ListType, types.DictType, types.StructType)
    some = [one for one in kind.types if not isinstance(one, types.NoneType) and "Unset" not in repr(one)]
    return min(some, key=lambda one: next((at for at, of in enumerate(order) if isinstance(one, of)), len(order)))


class _Maker:
    """Makes values of types, by the names of their fields."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def make(self, kind: Any, name: str, path: Path | None, count: int, at: int = 0, keys: Path = ()) -> Any:
        """Make a value. At the end of `path` it has `count` elements or characters; a path of None leads elsewhere."""
        kind = _choose(kind)
        if isinstance(kind, types.StructType):
            return {
                field.encode_name: self.make(field.type, field.name, rest, count, at, _keys_of(field))
                for field in kind.fields
                for rest in [path[1:] if path and path[0] == field.name else None]
                if field.required or rest is not None or field.name in _ALWAYS
            }
        times = 0 if path is None else count if not path else 1
        inner = path[1:] if path else None
        if isinstance(kind, types.ListType):
            return [self.make(kind.item_type, name, inner, count, number) for number in range(times)]
        if isinstance(kind, types.DictType):
            key, *rest = keys or ("name",)
            value = kind.value_type
            return {
                self._make_key(key, number): self.make(value, name, inner, count, number, tuple(rest))
                for number in range(times)
            }
        if isinstance(kind, types.StrType) and path == ():
            return "x" * count
        return self.make_scalar(kind, name, at)

    def _make_key(self, kind: str, at: int) -> str:
        return str(at) if kind in ("partition", "offset") else f"{self.names.get(kind, 'x')[0]}{at}"

    def make_scalar(self, kind: Any, name: str, at: int = 0) -> Any:
        """Make a value of a type that is neither a list nor a mapping."""
        kind = _choose(kind)
        if isinstance(kind, types.LiteralType):
            return kind.values[0]
        if isinstance(kind, types.StrType):
            return self.names.get(name, f"x{at}")
        if isinstance(kind, types.FloatType):
            return 0.5
        if isinstance(kind, types.BoolType):
            return True
        return _NUMBERS.get(name, at or 1) if isinstance(kind, types.IntType) else None


def _keys_of(field: Any) -> Path:
    kind, depth = _choose(field.type), 0
    while isinstance(kind, types.DictType):
        kind, depth = _choose(kind.value_type), depth + 1
    return _KEYS.get(field.name, ("name",))[-depth:] if depth else ()
