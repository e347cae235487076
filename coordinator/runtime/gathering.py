"""How long changes are gathered before they are synced together: the time from one sync to the next.

Clients that have an answer often send their next request at once. If the next sync began when the last one ended, it
would leave them out, and two halves of the clients would take turns at the disk. So the next sync waits for as many
changes as the last one has covered, but no longer than twice the time that it took, nor than two milliseconds. If that
was in vain, the clients do not come back so soon, and the next few syncs begin at once.
"""

from typing import Final

FACTOR: Final = 2.0  # of what the last sync took, at most
WAIT_S: Final = 0.002  # at most
AT_ONCE: Final = 16  # syncs that do not wait, after one has waited in vain


class Gathering:
    """The changes since a sync has ended. Times are seconds of the real clock."""

    def __init__(self) -> None:
        self.until_s = 0.0  # when the next sync begins at the latest
        self._changes = 0  # how many were decided since
        self._before = 0  # how many of its changes were decided before that
        self._wanted = 0  # how many the last sync has covered
        self._has_waited = False
        self._left = 0  # syncs that begin at once

    def add(self, changes: int) -> None:
        """Count changes that were decided."""
        self._changes += changes

    def begin(self, now_s: float, seconds: float) -> None:
        """Begin to gather, after a sync that took so many seconds."""
        self._before, self._changes = self._changes, 0
        self._has_waited = False
        if self._left:
            self._left -= 1
            seconds = 0.0
        self.until_s = now_s + min(seconds * FACTOR, WAIT_S)

    def check_over(self, now_s: float) -> bool:
        """Return whether it is time for the next sync, and note if it is not: the gathering has waited then."""
        is_over = self._changes >= self._wanted or now_s >= self.until_s
        self._has_waited |= not is_over
        return is_over

    def end(self) -> None:
        """End the gathering: the next sync begins, and covers all changes."""
        if self._has_waited and 2 * self._changes < self._wanted:
            self._left = AT_ONCE
        self._wanted = self._before + self._changes
        self._changes = 0
