"""Time that jumps from one event to the next."""

from collections.abc import Callable
from heapq import heappop, heappush

START_MS = 1_700_000_000_000


class EventQueue:
    """What happens when. Of one moment, what was scheduled first happens first."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def after(self, delay_ms: float, act: Callable[[], None]) -> None:
        """Schedule `act` in so many milliseconds."""
        self._order += 1
        heappush(self._queue, (self.now_ms + int(delay_ms), self._order, act))

    def run(self, until_ms: int) -> None:
        """Run everything that is scheduled up to then, and what it schedules in turn."""
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, act = heappop(self._queue)
            act()
        self.now_ms = until_ms
