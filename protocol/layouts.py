"""The struct formats of constructs, as far as they have any: what decoders and encoders read and write at once."""

from __future__ import annotations

import struct
from typing import Any

from construct import Bytes, Construct, FormatField
from msgspec import Struct

from protocol.constructs import Blob, Text
from protocol.structs import StructOf, TagSection


def fixed_layout(subcon: Construct) -> str:
    """Return the struct format of a construct of fixed size, else ""."""
    if isinstance(subcon, FormatField):
        return str(subcon.fmtstr[1:])
    return f"{subcon.length}s" if isinstance(subcon, Bytes) else ""


def may_be_of_one_size(element: StructOf) -> bool:
    """Return whether a struct is of one size while its strings are empty, and is more than strings."""
    subcons = [subcon for _, subcon in element.members]
    return any(map(fixed_layout, subcons)) and all(map(emptiest_layout, subcons))


def emptiest_layout(subcon: Construct) -> str:
    """Return the struct format of a construct of fixed size, or of one that is empty; else ""."""
    empty = empty_bytes(subcon)
    return fixed_layout(subcon) if empty is None else f"{len(empty)}s"


def empty_bytes(subcon: Construct) -> bytes | None:
    """Return the bytes of what is empty: of a string, or of tagged fields. None for what always has as many bytes."""
    if isinstance(subcon, TagSection):
        return b"\0"
    if isinstance(subcon, Text | Blob):
        return b"\1" if subcon.compact else bytes(struct.calcsize(">" + fixed_layout(subcon.prefix)))
    return None


class Together(Struct, frozen=True):
    """How structs are read at once that are of one size, because what may be empty is so in each of them."""

    size: int  # of one struct
    layout: str  # the struct format of one, with a gap for what is empty
    columns: tuple[str, ...]  # the fields that the format reads
    constants: dict[str, Any]  # the values of the others
    empty: list[tuple[int, int]]  # where a struct has a byte of what is empty, and which

    def test(self, chunk: str, count: str) -> str:
        """Return the expression for whether the bytes of so many structs are of this form."""
        tests = [f"{chunk}[{at} :: {self.size}] == {bytes([byte])!r} * {count}" for at, byte in self.empty]
        return " and ".join(tests) or "True"


def read_together(element: StructOf) -> Together:
    """Return how structs are read for which `may_be_of_one_size` holds."""
    layout, size, columns = "", 0, []
    constants: dict[str, Any] = {}
    places: list[tuple[int, int]] = []
    for name, subcon in element.members:
        empty = empty_bytes(subcon)
        if empty is None:
            columns.append(name)
            layout += fixed_layout(subcon)
        else:
            if isinstance(subcon, Text | Blob):
                constants[name] = "" if isinstance(subcon, Text) else b""
            layout += "x" * len(empty)
            places += enumerate(empty, size)
        size = struct.calcsize(">" + layout)
    return Together(size, layout, tuple(columns), constants, places)
