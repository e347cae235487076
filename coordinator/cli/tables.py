"""What the admin commands print: tables for people, JSON for programs. Not a subcommand."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

ABSENT = "-"  # stands for what is not there, so that a column is never empty


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One line of head, one line a row, columns as wide as they must be. Numbers stand to the right."""
    for line in table(head, rows):
        print(line)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of a table. A cell that is None or empty shows as `-`."""
    listed = [list(row) for row in rows]
    numeric = [bool(listed) and all(isinstance(row[at], int | None) for row in listed) for at in range(len(head))]
    cells = [list(head), *([_text(cell) for cell in row] for row in listed)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
    for line in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(padded).rstrip()


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def compact(numbers: Iterable[int]) -> str:
    """Partition numbers as people write them: `0-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def by_topic(partitions: Mapping[str, Sequence[int]]) -> str:
    """`orders:0-3 payments:1`"""
    return " ".join(f"{topic}:{compact(numbers)}" for topic, numbers in sorted(partitions.items()))


def _text(cell: Any) -> str:
    if cell is None or cell == "":
        return ABSENT
    return str(cell)
