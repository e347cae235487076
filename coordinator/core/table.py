"""A mapping that never changes, of which another with one entry more, less or changed costs next to nothing.

Groups are frozen values, and a group of 5,000 members that join one after the other would copy a dict of 5,000 each
time: a quadratic step. A table keeps what changed since the last copy in a small dict beside the large one, and folds
the two together every 64 changes. So a change costs a microsecond at any size. Entries stay in the order of insertion.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V", covariant=True)

_CHANGES_MAX: Final = 64
_GONE: Final[Any] = object()  # a key that the large dict still has


class Table(Mapping[K, V]):
    """A frozen mapping. `having` and `without` make another; both stay true."""

    __slots__ = ("_base", "_changes", "_size")
    _base: dict[K, Any]
    _changes: dict[K, Any]  # what differs from the base: a value, or _GONE
    _size: int

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._base = dict(entries) if entries else {}
        self._changes = {}
        self._size = len(self._base)

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
        """Return the key that has been here longest, None in an empty table."""
        for key in self._base:
            if self._changes.get(key) is not _GONE:
                return key
        return next((key for key, value in self._changes.items() if value is not _GONE), None)

    def having(self, key: K, value: V) -> "Table[K, V]":  # type: ignore[misc]  # reads V, but never writes to this one
        """This table with `value` under `key`. None is no value: it stands for nothing being there."""
        assert value is not None, f"None under {key!r}"
        changes = self._changes.copy()
        before = changes.get(key)
        is_new = key not in self._base if before is None else before is _GONE
        changes[key] = value
        return _table(self._base, changes, self._size + is_new)

    def without(self, key: K) -> "Table[K, V]":
        """This table without `key`, which need not be there."""
        if key not in self:
            return self
        return _table(self._base, {**self._changes, key: _GONE}, self._size - 1)

    def _fold(self) -> dict[K, Any]:
        """Return all entries in one dict, which nobody may change."""
        return _fold(self._base, self._changes) if self._changes else self._base


def _table(base: dict[K, Any], changes: dict[K, Any], size: int) -> Table[K, Any]:
    """Return the table of a dict and of what differs from it, folded together if that is much or the dict is small."""
    if len(changes) > _CHANGES_MAX or len(base) <= _CHANGES_MAX:
        base, changes = _fold(base, changes), {}
    table: Table[K, Any] = Table.__new__(Table)
    table._base, table._changes, table._size = base, changes, size
    return table


def _fold(base: dict[K, Any], changes: dict[K, Any]) -> dict[K, Any]:
    entries = base.copy()
    for key, value in changes.items():
        if value is _GONE:
            entries.pop(key, None)
        else:
            entries[key] = value
    return entries
