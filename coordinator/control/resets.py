"""The latest request and event before each reset, so that `verify` counts only what came after it.

A reset of everything empties the journal, but neither the events nor their numbers; a reset of one prefix, on a server
that tests share, leaves both as they are.
"""

from typing import Final, NamedTuple

PREFIXES_MAX: Final = 1_000  # the oldest go first: each worker of a test run has one


class Mark(NamedTuple):
    """The numbers of the latest request in the journal and of the latest event."""

    request: int = 0
    event: int = 0


class Resets:
    """The marks of the last resets, by the prefix that was reset; "" is everything."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}

    def note(self, prefix: str, mark: Mark) -> None:
        """Note a reset that has just been done."""
        if not prefix:
            self._marks.clear()
        self._marks.pop(prefix, None)
        self._marks[prefix] = mark
        if len(self._marks) > PREFIXES_MAX:
            del self._marks[next(iter(self._marks))]

    def note_new_journal(self) -> None:
        """Note that requests are numbered from 1 again."""
        self._marks = {prefix: mark._replace(request=0) for prefix, mark in self._marks.items()}

    def find(self, name: str) -> Mark:
        """Return the mark of the last reset that concerns the name of a group or a topic; "" is any name."""
        marks = [mark for prefix, mark in self._marks.items() if name.startswith(prefix)]
        return Mark(max([one.request for one in marks], default=0), max([one.event for one in marks], default=0))
