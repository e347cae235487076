"""Mistakes that are planted in the product for the time of a test, to show that a check can fail."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]
Faulty = Callable[..., Any]


def replacing(owner: Any, name: str, faulty: Faulty, every: int = 1) -> Plant:
    """Return what calls `faulty(method, *arguments)` in place of a method or function, at one of so many calls."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        method, calls = getattr(owner, name), count(1)

        def call(*args: Any, **named: Any) -> Any:
            return method(*args, **named) if next(calls) % every else faulty(method, *args, **named)

        patch.setattr(owner, name, call)

    plant.__doc__ = faulty.__doc__
    return plant
