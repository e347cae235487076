"""Verbs that are done in steps, of which some wait for the disk."""

from collections.abc import Callable, Generator
from typing import TypeVar

from storage.files import StorageError

T = TypeVar("T")
Wait = Callable[[], None]
Waits = Generator[Wait | None, None, T]
"""Between two steps clients are served. What a step gives is to be called by a thread, and what it raises is thrown
into the generator."""


def finish_waits(steps: Waits[T]) -> T:
    """Do all steps at once, and return what comes of them."""
    failure: StorageError | None = None
    while True:
        try:
            wait = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as end:
            value: T = end.value
            return value
        failure = None
        if wait is not None:
            try:
                wait()
            except StorageError as error:
                failure = error
