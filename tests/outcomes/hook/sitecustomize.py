"""Load the modules of the product as `tests.outcomes` has instrumented them, in each process that has this folder on its path."""

import builtins
import marshal
import mmap
import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NO_TRUTH = (ValueError, TypeError)  # what arrays raise, and columns of Spark
T = TypeVar("T")


class Outcomes:
    """What instrumented code calls: a byte for each outcome, in memory that all processes share."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen

    def run(self, number: int) -> None:
        """Note that a function or a branch is begun."""
        self._seen[number] = 1

    def condition(self, number: int, value: T) -> T:
        """Note whether a condition holds."""
        with suppress(NO_TRUTH):
            self._seen[number + (not value)] = 1
        return value

    def compare(self, number: int, order: str, left: Any, right: Any) -> Any:
        """Note whether an order holds, and whether both sides are equal."""
        value = ORDERS[order](left, right)
        with suppress(NO_TRUTH):
            if left == right:
                self._seen[number + 2] = 1
        return self.condition(number, value)

    def loop(self, number: int, elements: Iterable[T]) -> Iterator[T]:
        """Note how often a loop goes around: not at all, once, or more often."""
        return self._count(number, iter(elements))

    def _count(self, number: int, elements: Iterator[T]) -> Iterator[T]:
        taken = 0
        try:
            for element in elements:
                taken = min(taken + 1, 2)
                yield element
        finally:
            self._seen[number + taken] = 1


def use(folder: Path) -> None:
    """Load what was instrumented in place of each module that has such code, from now on."""
    with (folder / "seen").open("r+b") as file:
        builtins.muster_outcomes = Outcomes(mmap.mmap(file.fileno(), 0))
    get_own = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        instrumented = folder / "code" / name_code(Path(self.path))
        if not instrumented.exists():
            return get_own(self, name)
        code: CodeType = marshal.loads(instrumented.read_bytes())
        return code

    SourceFileLoader.get_code = get_code


def name_code(path: Path) -> str:
    """Return the name of the file that has a module's instrumented code."""
    return str(path.resolve()).replace("/", "%")


if "MUSTER_OUTCOMES" in os.environ:
    use(Path(os.environ["MUSTER_OUTCOMES"]))
