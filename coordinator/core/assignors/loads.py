"""Track which subscriber of a topic owns least, and which most, while partitions move between them.

Subscribers are sorted once by how many partitions they own. Two ranges then grow towards each other: the low end, all
of whose members own equally many and get one each in turn before the range widens, and the high end, likewise, giving.
So each question costs a constant, where asking a heap would not.

    owned │             ▒▒▒▒#        low: the next member to get one goes round in ░
          │         ####▒▒▒▒#        high: the next to give one goes round in ▒
          │ ░░░░░░░░####▒▒▒▒#        #, right: excluded, has none of this topic to give
          └──────────────────►
"""

from collections.abc import Sequence


class Loads:
    """The subscribers of one topic by how much they own; `sizes` is read as of the start of each range."""

    def __init__(self, sizes: Sequence[int], subscribers: Sequence[int]) -> None:
        # Subscribers come in ascending order, so a stable sort breaks ties by member index.
        self._sorted = sorted(subscribers, key=sizes.__getitem__)
        self._sizes = sizes
        self._low_end = 0
        self._low_level = sizes[self._sorted[0]] - 1
        self._next_low = 0
        self._high_start = self._high_end = len(self._sorted)
        self._high_level = sizes[self._sorted[-1]] + 1
        self._next_high = len(self._sorted) - 1

    @property
    def is_even(self) -> bool:
        """Whether moving one more partition would no longer help."""
        return self._high_level - self._low_level <= 1

    def next_least(self) -> int:
        """Return the member to give the next partition to."""
        if self._next_low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._sorted) and self._size_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._sorted[self._next_low - 1]

    def next_most(self) -> int | None:
        """Return the member to take the next partition from, or None when nobody is left."""
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # Everybody in the range was excluded: go on with the next lower level there is.
                self._high_level = self._size_at(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._size_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._sorted[self._next_high + 1]

    def exclude_most(self) -> None:
        """Leave out the member that `next_most` named last from now on: it has nothing to give."""
        here, last = self._next_high + 1, self._high_end - 1
        self._sorted[here], self._sorted[last] = self._sorted[last], self._sorted[here]
        self._high_end -= 1

    def _size_at(self, position: int) -> int:
        return self._sizes[self._sorted[position]]
