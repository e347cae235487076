"""Messages in columns: the form in which a decoder hands out an array of structs that are all of one size, and in
which a handler may hand one to the encoder.

A commit of a hundred partitions is three columns then, and not a hundred messages. Other code need not
know: `Rows` reads as the tuple of its messages, which are made when they are asked for, and is equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from struct import Struct
from typing import Any, Final, Generic, TypeVar, final, overload

ROWS_AT_ONCE: Final = 128  # that one layout reads; each number of rows has its own, of some 30 bytes a value

M = TypeVar("M")
RowReader = Callable[[bytes, int, int], "Rows[Any] | None"]
"""Given data, where rows begin in it and where they end."""


@final
class Rows(Sequence[M], Generic[M]):
    """Messages of one class, as a column of values for each of some fields; the others are the same in all of them."""

    __slots__ = ("columns", "shape", "start")

    def __init__(self, shape: Shape[M], columns: tuple[tuple[Any, ...], ...], start: int = -1) -> None:
        self.shape = shape
        self.columns = columns
        self.start = start  # where they began in the bytes that they were read from

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that have a column, in the order of the columns."""
        return self.shape.fields

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[M]:
        return starmap(self.shape.make, zip(*self.columns, strict=True))

    @overload
    def __getitem__(self, at: int) -> M: ...
    @overload
    def __getitem__(self, at: slice) -> Rows[M]: ...
    def __getitem__(self, at: int | slice) -> M | Rows[M]:
        if isinstance(at, slice):
            return Rows(self.shape, tuple([column[at] for column in self.columns]))
        return self.shape.make(*[column[at] for column in self.columns])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | Rows) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@final
class Shape(Generic[M]):
    """What the rows of one array have in common: the class, the fields with a column, and the values of the others."""

    __slots__ = ("_cls", "constants", "fields", "read", "row_bytes")

    def __init__(self, cls: type[M], fields: tuple[str, ...], constants: dict[str, Any]) -> None:
        """Fields in neither have the default of the class."""
        self._cls, self.fields, self.constants = cls, fields, constants
        self.read: RowReader | None = None  # where such rows are read
        self.row_bytes = 0  # of each such row

    def constant(self, name: str) -> Any:
        """Return the value of a field that has no column."""
        if name in self.constants:
            return self.constants[name]
        defaults = self._cls.__struct_defaults__  # type: ignore[attr-defined]  # of all fields, as every message has
        return defaults[self._cls.__struct_fields__.index(name)]  # type: ignore[attr-defined]  # M is a Struct here

    def make(self, *values: Any) -> M:
        """Return the message with these values of the fields that have a column."""
        return self._cls(**dict(zip(self.fields, values, strict=True)), **self.constants)


class Layouts(dict[int, Callable[[bytes], tuple[Any, ...]]]):
    """Functions that unpack so many rows at once, by the number of rows. Made when they are first asked for."""

    def __init__(self, row: str) -> None:
        """`row` is the struct format of one row."""
        self._row = row

    def __missing__(self, count: int) -> Callable[[bytes], tuple[Any, ...]]:
        assert count <= ROWS_AT_ONCE, "more rows than are unpacked at once"
        self[count] = unpack = Struct(">" + self._row * count).unpack
        return unpack
