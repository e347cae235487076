"""Work in steps: a generator that yields where others may have their turn, and returns what comes of it."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that gives way to others at each `yield`, and what comes of it."""


def finish_steps(steps: Generator[object, None, T]) -> T:
    """Do all steps in one piece, and return what comes of them: for work that is known to be little."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
