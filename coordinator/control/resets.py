"""The latest request and event before each reset, so that `verify` counts only what came after it.

A reset of everything empties the journal, but neither the events nor their numbers; a reset of one prefix, on a server
that tests share, leaves both as they are. A journal that is turned on anew has no requests of before.
"""

from typing import Final, NamedTuple

PREFIXES_MAX: Final = 1_000  # with those that were kept; the oldest go first: each worker of a test run has one


class Mark(NamedTuple):
    """The numbers of the latest request in the journal and of the latest event."""

    request: int = 0
    event: int = 0


class Resets:
    """The marks of the last resets, by the prefix that was reset ("" for everything) and those that were kept.

    Another thread may look for one while a reset is noted.
    """

    def __init__(self) -> None:
        self._marks: dict[tuple[str, tuple[str, ...]], Mark] = {}  # replaced as a whole
        self._begun = 0  # the latest request of the journal of before

    def note(self, prefix: str, mark: Mark, keep: tuple[str, ...] = ()) -> None:
        """Note a reset that has just been done."""
        marks = dict(self._marks) if prefix or keep else {}
        marks.pop((prefix, keep), None)
        marks[prefix, keep] = mark
        prefixes = sum(1 + len(kept) for _, kept in marks)
        while prefixes > PREFIXES_MAX and len(marks) > 1:
            oldest = next(iter(marks))
            del marks[oldest]
            prefixes -= 1 + len(oldest[1])
        self._marks = marks

    def note_new_journal(self, latest: int) -> None:
        """Note that the journal begins anew, behind the request with this number."""
        self._begun = latest

    def find(self, name: str) -> Mark:
        """Return the mark of the last reset that concerns the name of a group or a topic; "" is any name."""
        marks = [
            mark
            for (prefix, keep), mark in self._marks.items()
            if name.startswith(prefix) and not (keep and (not name or name.startswith(keep)))
        ]
        return Mark(max([self._begun, *[one.request for one in marks]]), max([0, *[one.event for one in marks]]))
