"""Messages made of bytes: a construct is walked, and each choice on the way takes bytes from a string of them.

Hypothesis then draws one byte string a message, which is quick, and shrinks it: zeros and an early end make the
simplest message, so what it reports is small.
"""

from __future__ import annotations

from random import Random
from typing import Any

from construct import Bytes, Construct, FormatField
from hypothesis import strategies as st

from protocol.constructs import ArrayOf, Blob, Text
from protocol.structs import NullableStruct, StructOf, TagSection

CHOICES = st.binary(max_size=200) | st.integers(0, 2**32).map(lambda seed: Random(seed).randbytes(200))
WORDS = (
    "",
    "a",
    "group-1",
    "consumer-1-f4d1c7e2-9f0b-4b0e-8a51-0d8a4d8f3a31",
    "é",
    "日本",
    "😀b",
    "n" * 126,
    "n" * 127,
)
RANGES = {"b": 8, "h": 16, "l": 32, "q": 64, "B": 8, "H": 16, "L": 32}


class Choices:
    """A byte string as a source of choices; behind its end there are zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        return self.number(1)

    def number(self, size: int) -> int:
        chunk = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(chunk.ljust(size, b"\0"), "big")

    def below(self, end: int) -> int:
        return self.byte() % end


def integer(layout: str, choices: Choices) -> int:
    """An integer of one of struct's formats: often small or at an edge."""
    bits = RANGES[layout]
    low, high = (0, 2**bits - 1) if layout.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    kind = choices.below(6)
    if kind < 2:
        return min(choices.byte() * kind, high)
    if kind < 5:
        return (low, high, max(low, -1))[kind - 2]
    return low + choices.number(bits // 8)


def text(choices: Choices) -> str:
    kind = choices.below(12)
    if kind < len(WORDS):
        return WORDS[kind]
    return chr(33 + choices.below(90)) * (choices.byte() if kind < 11 else choices.number(2) & 0x7FFF)


def blob(choices: Choices) -> bytes:
    return bytes([choices.byte()]) * (choices.number(2) % 300 if choices.below(4) == 3 else choices.below(4))


def count(choices: Choices) -> int:
    """Of elements: few, and rarely so many that a varint needs two bytes."""
    kind = choices.below(40)
    return 130 if kind == 39 else kind % 4


def value_of(subcon: Construct, choices: Choices) -> Any:
    """A value that `subcon` can write."""
    if isinstance(subcon, FormatField):
        layout = subcon.fmtstr[1:]
        if layout == "?":
            return choices.below(2) == 1
        return float(integer("l", choices)) if layout == "d" else integer(layout, choices)
    if isinstance(subcon, Bytes):
        return bytes([choices.byte()]) * 16
    if isinstance(subcon, StructOf):
        return message_of(subcon, choices)
    if isinstance(subcon, NullableStruct):
        return message_of(subcon.subcon, choices) if choices.below(3) else None
    if subcon.nullable and choices.below(4) == 1:
        return None
    if isinstance(subcon, Text):
        return text(choices)
    if isinstance(subcon, Blob):
        return blob(choices)
    assert isinstance(subcon, ArrayOf)
    return tuple(value_of(subcon.element, choices) for _ in range(count(choices)))


def message_of(root: StructOf, choices: Choices) -> Any:
    """A message with a value for each field of this version; the others keep their defaults."""
    values: dict[str, Any] = {}
    for name, subcon in root.members:
        if name:
            values[name] = value_of(subcon, choices)
            continue
        assert isinstance(subcon, TagSection)
        for field in subcon.fields:
            if choices.below(2):
                values[field.name] = value_of(field.subcon, choices)
    return root.cls(**values)
