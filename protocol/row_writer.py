"""Encode `Rows` column by column: an array of structs that a handler returns as columns.

│ partition i32 │ offset i64 │ epoch i32 │ 1 │ 0 0 │ 0 │      a row of the response to an OffsetFetch 8: three columns,
└── column ─────┴── column ──┴── column ─┴─ constant ──┘      and the fields that are equal in all rows, as one constant
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

from protocol.constructs import Blob, Text
from protocol.layouts import empty_bytes, fixed_layout
from protocol.rows import ROWS_AT_ONCE, Rows, Shape
from protocol.structs import StructOf

Columns = tuple[tuple[Any, ...], ...]
Writer = Callable[[Columns], bytes | None]  # None: the rows have to be written one by one
_SHAPES_MAX: Final = 16  # of one array: a handler uses one or two


class RowWriter:
    """Writes the rows of one construct, whose structs have a fixed size if their strings are empty."""

    def __init__(self, element: StructOf) -> None:
        self._element = element
        self._writers: dict[Shape[Any], Writer] = {}

    def __call__(self, rows: Rows[Any]) -> bytes | None:
        """Return the bytes of the rows, None if they have to be written one by one. Raises as an encoder does."""
        write = self._writers.get(rows.shape) or self._new_writer(rows.shape)
        return write(rows.columns)

    def _new_writer(self, shape: Shape[Any]) -> Writer:
        assert len(self._writers) < _SHAPES_MAX, "shapes are constants, and not made for each response"
        write = self._writers[shape] = _make_writer(self._element, shape)
        return write


def _make_writer(element: StructOf, shape: Shape[Any]) -> Writer:
    """Return the function that writes the columns of a shape."""
    layouts: list[str] = []  # of the parts of a row
    parts: list[int | bytes] = []  # the number of a column, or a constant
    for name, subcon in element.members:
        layout = fixed_layout(subcon)
        if name in shape.fields:
            if not layout or layout.endswith("s"):
                return _decline
            layouts.append(layout)
            parts.append(shape.fields.index(name))
            continue
        constant = empty_bytes(subcon)
        if constant is None:
            constant = struct.pack(">" + layout, shape.constant(name))
        elif isinstance(subcon, Text | Blob) and shape.constant(name) not in ("", b""):
            return _decline
        if parts and isinstance(before := parts[-1], bytes):
            constant = before + constant
            del parts[-1], layouts[-1]
        layouts.append(f"{len(constant)}s")
        parts.append(constant)
    return _make_packer("".join(layouts), parts)


def _decline(columns: Columns) -> None:
    """Return None: the rows have fields that are neither numbers nor constants."""


def _make_packer(row: str, parts: list[int | bytes]) -> Writer:
    """Return a function that packs columns: all rows in one call if they are few, otherwise row by row."""
    width, pack_row = len(parts), struct.Struct(">" + row).pack
    template = [None if isinstance(part, int) else part for part in parts]
    placed = [(at, part) for at, part in enumerate(parts) if isinstance(part, int)]
    packers: dict[int, Callable[..., bytes]] = {}  # by the number of rows

    def write(columns: Columns) -> bytes:
        count = len(columns[0])
        if count > ROWS_AT_ONCE:
            return b"".join(map(pack_row, *[columns[one] if isinstance(one, int) else repeat(one) for one in parts]))
        pack = packers.get(count)
        if pack is None:
            pack = packers[count] = struct.Struct(">" + row * count).pack
        values: list[Any] = template * count
        for at, column in placed:
            values[at::width] = columns[column]
        return pack(*values)

    return write
