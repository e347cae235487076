"""One change of a line, as a programmer makes it by mistake."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A line of a file, what it becomes, the tests that must fail then, and whether they did at first."""

    what: str
    path: str
    line: str
    instead: str
    tests: tuple[str, ...]
    was_found: bool
