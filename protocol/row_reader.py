"""Bytes to rows, column by column: how a decoder reads an array of structs that is declared `in_columns`.

│ partition i32 │ offset i64 │ epoch i32 │ 1 │ 0 │      a row of OffsetCommit 8: three columns, and behind them what is
└── column ─────┴── column ──┴── column ─┴─ empty┘      empty, the metadata and the tags: the same two bytes in each row
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import chain
from typing import Any

from protocol import bounds
from protocol.layouts import read_together
from protocol.rows import ROWS_AT_ONCE, Layouts, RowReader, Rows, Shape
from protocol.source import Source
from protocol.structs import StructOf


def row_reader(element: StructOf) -> RowReader:
    """Return a function to the rows in `data[at:end]`, which are whole; None if they are to be read one by one."""
    together, source = read_together(element), Source({"Rows": Rows})
    size, count = together.size, len(together.columns)
    shape: Shape[Any] = Shape(element.cls, together.columns, together.constants)
    name, layouts = source.constant(shape), source.constant(Layouts(together.layout))
    source.line("chunk = data[at:end]")
    source.line(f"count = len(chunk) // {size}")
    with source.block(f"if not ({together.test('chunk', 'count')}):"):
        source.line("return None")
    with source.block(f"if count <= {ROWS_AT_ONCE}:"):
        source.line(f"flat = {layouts}[count](chunk)")
        columns = ", ".join([f"flat[{at}::{count}]" for at in range(count)])
        source.line(f"return Rows({name}, ({columns},), at)")
    unpacked = f"{source.struct(together.layout, 'iter_unpack')}(chunk)"
    source.line(f"return Rows({name}, tuple(zip(*{unpacked})), at)")
    shape.row_bytes, shape.read = size, source.function("data, at, end")
    return shape.read


def row_reader_in_steps(
    read: RowReader, row_bytes: int
) -> Callable[[bytes, int, int], Generator[None, None, Rows[Any] | None]]:
    """Return the same function in steps of about `STEP_BYTES`."""
    part_bytes = max(bounds.STEP_BYTES // row_bytes, 1) * row_bytes

    def read_in_steps(data: bytes, at: int, end: int) -> Generator[None, None, Rows[Any] | None]:
        parts: list[Rows[Any]] = []
        for begin in range(at, end, part_bytes):
            part = read(data, begin, min(begin + part_bytes, end))
            if part is None:
                return None
            parts.append(part)
            yield
        columns = zip(*[part.columns for part in parts], strict=True)
        return Rows(parts[0].shape, tuple([tuple(chain.from_iterable(column)) for column in columns]), at)

    return read_in_steps
