"""An immutable mapping: a copy of it with one entry added, removed or replaced takes a microsecond at any size.

Groups are frozen values: with dicts, 5,000 members that join one after the other would copy up to 5,000 entries each
time. A table keeps the latest changes in a small dict beside a large one, and merges the two every 64 changes. Entries
stay in the order of insertion.
"""

from collections.abc import Iterator, Mapping
from itertools import compress, repeat
from operator import is_not
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V", covariant=True)

_CHANGES_MAX: Final = 64
_GONE: Final[Any] = object()  # a key that the large dict still has


class Table(Mapping[K, V]):
    """A frozen mapping. `with_item` and `without_key` return another one, and leave this one as it is."""

    __slots__ = ("_base", "_changes", "_earlier", "_identity", "_latest", "_origin", "_size")
    _base: dict[K, Any]
    _changes: dict[K, Any]  # what differs from the base: a value, or _GONE
    _size: int
    _identity: object  # no other table has the same, not even one at the address of this one, later
    _origin: object  # the identity of the table from which this one was made by one entry; None if it was not
    _earlier: object  # the same, of the table before all of the latest changes if they were of one key
    _latest: Any  # the key of that entry

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._base = dict(entries) if entries else {}
        self._changes = {}
        self._size = len(self._base)
        self._identity, self._origin, self._earlier, self._latest = object(), None, None, None

    def get(self, key: K, default: Any = None) -> Any:
        if not self._changes:  # as in all small tables
            return self._base.get(key, default)
        value = self._changes.get(key)
        if value is None:
            return self._base.get(key, default)
        return default if value is _GONE else value

    def __getitem__(self, key: K) -> V:
        value = self._changes.get(key)
        if value is None:
            return self._base[key]  # type: ignore[no-any-return]  # the dicts hold _GONE beside V
        if value is _GONE:
            raise KeyError(key)
        return value  # type: ignore[no-any-return]  # as above

    def __contains__(self, key: object) -> bool:
        value = self._changes.get(key)  # type: ignore[arg-type]  # any key may be asked for
        return key in self._base if value is None else value is not _GONE

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self._fold())

    def values(self) -> Any:
        return self._fold().values()

    def items(self) -> Any:
        return self._fold().items()

    def __repr__(self) -> str:
        return f"Table({self._fold()!r})"

    def first(self) -> K | None:
        """Return the key that was inserted first, None for an empty table."""
        base, changes = self._base, self._changes
        if not changes:
            return next(iter(base), None)
        stays = map(is_not, map(changes.get, base), repeat(_GONE))  # not a loop: it may pass as many as are changed
        key: K | None = next(compress(base, stays), None)
        if key is not None:
            return key
        return next((key for key, value in changes.items() if value is not _GONE), None)

    def with_item(self, key: K, value: V) -> "Table[K, V]":  # type: ignore[misc]  # reads V, but never writes to this one
        """Return the table with `value` under `key`. `value` may not be None."""
        assert value is not None, f"None under {key!r}"
        changes = self._changes.copy()
        before = changes.get(key)
        is_new = key not in self._base if before is None else before is _GONE
        changes[key] = value
        return _table(self, key, changes, self._size + is_new)

    def without_key(self, key: K) -> "Table[K, V]":
        """Return the table without `key`, which need not be there."""
        if key not in self:
            return self
        table = _table(self, key, {**self._changes, key: _GONE}, self._size - 1)
        if not table._changes:
            table._origin = table._earlier = table._latest = None  # else the key would be held as long as the table
        return table

    def differences(self, before: "Table[K, V]") -> Iterator[tuple[V | None, V | None]]:
        """Yield the values that another table has and this one has, where they are not the same object."""
        if before._identity in (self._origin, self._earlier):  # mostly, and then it is a microsecond at any size
            keys = [self._latest]
        else:
            is_near = self._base is before._base
            had, has = (before._changes, self._changes) if is_near else (before._fold(), self._fold())
            keys = [key for key, value in has.items() if had.get(key) is not value] + list(had.keys() - has.keys())
        for key in keys:
            was, now = before.get(key), self.get(key)
            if was is not now:
                yield was, now

    def _fold(self) -> dict[K, Any]:
        """Return all entries in one dict, which the caller must not change."""
        return _fold(self._base, self._changes) if self._changes else self._base


def _table(origin: Table[K, Any], key: K, changes: dict[K, Any], size: int) -> Table[K, Any]:
    """Return the table that one change of a key makes of another, with all changes to the dict of that one. They are
    merged if there are many of them or the dict is small."""
    base = origin._base
    if len(changes) > _CHANGES_MAX or len(base) <= _CHANGES_MAX:
        base, changes = _fold(base, changes), {}
    table: Table[K, Any] = Table.__new__(Table)
    table._base, table._changes, table._size = base, changes, size
    table._identity, table._origin, table._latest = object(), origin._identity, key
    table._earlier = origin._earlier if origin._latest == key else origin._identity
    return table


def _fold(base: dict[K, Any], changes: dict[K, Any]) -> dict[K, Any]:
    entries = base.copy()
    for key, value in changes.items():
        if value is _GONE:
            entries.pop(key, None)
        else:
            entries[key] = value
    return entries
