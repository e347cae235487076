"""A promise that is not kept."""

from collections.abc import Callable


class Broken(AssertionError):  # noqa: N818 - it is a promise that is
    """A promise was not kept."""


def promise(holds: bool, sentence: str, fact: Callable[[], str] = lambda: "") -> None:
    """Raise `Broken` with the sentence, and what is so instead, unless it holds."""
    if not holds:
        raise Broken(f"{sentence}: {told}" if (told := fact()) else sentence)
