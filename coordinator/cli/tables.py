"""Tables for people, JSON for programs. Not a subcommand."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.cli.style import BOLD, paint
from coordinator.control.printable import make_printable

ABSENT: Final = "-"  # an empty cell: a column is never blank
_WIDE: Final = frozenset("WF")  # of Unicode's widths: two columns of a terminal
_MARKS: Final = frozenset({"Mn", "Me"})  # categories of marks above or below a letter: no column


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a line of headings and a line for each row. Columns are as wide as needed, numbers stand to the right."""
    for number, line in enumerate(format_table(head, rows)):
        print(line if number else paint(line, BOLD, sys.stdout))


def format_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table. A cell that is None or empty shows as `-`."""
    listed = [list(row) for row in rows]
    numeric = [_is_numeric([row[at] for row in listed]) for at in range(len(head))]
    cells = [list(head), *([_format_cell(cell) for cell in row] for row in listed)]
    widths = [max(_width(line[at]) for line in cells) for at in range(len(head))]
    for line in cells:
        padded = (
            " " * (widest - _width(cell)) + cell if right else cell + " " * (widest - _width(cell))
            for cell, widest, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Return how many columns of a terminal a cell takes."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(letter) in _WIDE else unicodedata.category(letter) not in _MARKS
        for letter in text
    )


def _is_numeric(column: Sequence[Any]) -> bool:
    """Return whether a column has numbers and nothing else, but for empty cells."""
    return any(cell is not None for cell in column) and all(isinstance(cell, int | None) for cell in column)


def print_json(value: Any) -> None:
    """Print a JSON document."""
    print(json.dumps(value, indent=2))


def compress(numbers: Iterable[int]) -> str:
    """Write partition numbers as people do: `0-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def format_partitions(partitions: Mapping[str, Sequence[int]]) -> str:
    """Write partitions as `orders:0-3 payments:1`."""
    return " ".join(f"{topic}:{compress(numbers)}" for topic, numbers in sorted(partitions.items()) if numbers)


def count(number: int, noun: str) -> str:
    """Write `1 member`, `2 members`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _format_cell(cell: Any) -> str:
    if cell is None or cell == "":
        return ABSENT
    return make_printable(str(cell))
