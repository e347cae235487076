"""Work that is done in steps, done to its end."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Do all steps, and return what comes of them."""
    return count_steps(steps)[1]


def count_steps(steps: Generator[None, None, T]) -> tuple[int, T]:
    """Do all steps. Returns how many they were, and what comes of them."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1
